package fleet

import (
	"bytes"
	"cmp"
	"context"
	"time"
)

// deliver sets the latest answer of a Render unless the cluster was told the same.
func (s *Session) deliver(id ID, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.renders[id]
	if !ok || r.spec.UID != a.UID || r.spec.Generation != a.Generation {
		return // the spec moved on; its own reconcile answers it
	}
	if a.equal(r.latest()) {
		r.pending = nil
		return
	}
	r.pending = &a
	s.enqueue(id, r)
	s.signal()
}

// enqueue gives a Render whose pending answer may leave a place in its queue.
func (s *Session) enqueue(id ID, r *render) {
	switch {
	case r.pending == nil || r.inflight != nil:
	case r.delivers():
		s.content.push(id)
	default:
		s.news.push(id)
	}
}

// delivers says whether the pending answer is content that the cluster lacks.
func (r *render) delivers() bool {
	return r.pending.Content != nil && !bytes.Equal(r.pending.Content.ID, r.spec.Have)
}

// latest is the last answer that left: what is under way, or else what was told.
func (r *render) latest() *Answer {
	if r.inflight != nil {
		return r.inflight
	}
	return r.told
}

// Next returns the next frame to send, waiting for one. It ends with the context's
// or the session's cause.
func (s *Session) Next(ctx context.Context) (Frame, error) {
	for {
		if frame, ok := s.take(); ok {
			return frame, nil
		}
		select {
		case <-s.wake:
		case <-s.done:
			return Frame{}, s.Cause()
		case <-ctx.Done():
			return Frame{}, context.Cause(ctx)
		}
	}
}

// take takes the next answer that may leave: news first, which costs nothing, then
// deliveries in order. One that does not fit holds back those behind it.
func (s *Session) take() (Frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.news.first(func(id ID) bool { return s.waits(id, false) }); ok {
		return s.tell(id), true
	}
	id, ok := s.content.first(func(id ID) bool { return s.waits(id, true) })
	if !ok || !s.fits(s.renders[id].pending.Content) {
		return Frame{}, false
	}
	return s.send(id), true
}

// waits says whether a Render still waits in the queue of deliveries, or that of news.
func (s *Session) waits(id ID, delivers bool) bool {
	r, ok := s.renders[id]
	return ok && r.pending != nil && r.inflight == nil && r.delivers() == delivers
}

// fits holds back what would go over the bound, except when nothing else is under way.
func (s *Session) fits(c *Content) bool {
	return s.unacked == 0 || s.unacked+c.Size() <= s.maxUnacked
}

// tell moves the pending answer out that needs no result.
func (s *Session) tell(id ID) Frame {
	s.news.drop(id)
	r := s.renders[id]
	a := r.pending
	r.told, r.pending, r.failed = a.remembered(), nil, false
	r.conclude(Outcome{Refusal: a.Refusal})
	return Frame{ID: id, Answer: *a}
}

// send moves the pending answer out as a delivery.
func (s *Session) send(id ID) Frame {
	s.content.drop(id)
	r := s.renders[id]
	s.nonce++
	r.inflight, r.nonce = r.pending, s.nonce
	r.pending, r.failed, r.moved = nil, false, now()
	s.unacked += r.inflight.Content.Size()
	s.deliveries.Add(1)
	return Frame{ID: id, Nonce: s.nonce, Answer: *r.inflight}
}

// Ack takes the answer to a delivery. It reports false for one that was never sent
// or is answered already, which counts for nothing.
func (s *Session) Ack(res Result) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.renders[res.ID]
	if !ok || r.inflight == nil || r.nonce != res.Nonce {
		return false
	}
	a := r.inflight
	s.settle(r)
	current := r.spec.UID == a.UID && r.spec.Generation == a.Generation
	switch {
	case !current || res.Code == Superseded:
	case res.Code == Applied:
		r.spec.Have, r.told, s.applied = a.Content.ID, a.remembered(), time.Now()
		r.conclude(Outcome{})
	default:
		r.told, r.failed = a.remembered(), true
		r.conclude(Outcome{Failure: cmp.Or(res.Reason, unknownFailure)})
	}
	s.enqueue(res.ID, r) // now that it is known what the target holds
	s.signal()
	return true
}

// settle ends the unanswered delivery of a Render.
func (s *Session) settle(r *render) {
	if r.inflight != nil {
		s.unacked -= r.inflight.Content.Size()
		r.inflight = nil
	}
}

func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
