package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Causes for which the fleet itself ends a session.
var (
	// ErrSuperseded: a newer session of the same cluster took over.
	ErrSuperseded = errors.New("superseded by a newer session")
	// ErrDetached: the stream under the session is over.
	ErrDetached = errors.New("stream is over")
)

// Session is the outbox of one connected cluster.
type Session struct {
	cluster    string
	instance   string
	maxUnacked int
	deliveries *atomic.Int64 // the fleet's

	// turn is held while the session acts, see Do, and while it waits for an older one.
	turn sync.Mutex
	// done is closed by the first End, after cause is set.
	done  chan struct{}
	end   sync.Once
	cause error
	// wake holds a token when Next may have something to do.
	wake chan struct{}

	// mu guards everything below.
	mu      sync.Mutex
	epoch   int64
	whole   bool // there was an inventory
	renders map[ID]*render
	news    queue // Renders whose pending answer may go at once
	content queue // those whose pending answer is a delivery, which the bound may hold back
	unacked int   // bytes of the deliveries that are not answered
	nonce   uint64
	applied time.Time // see Status
}

// render is the state of one Render in a session.
type render struct {
	spec     Spec
	pending  *Answer // latest, not sent
	inflight *Answer // sent, not answered; only deliveries
	nonce    uint64  // of inflight
	told     *Answer // the last answer that was sent as Current or Refusal, or applied
	failed   bool    // the last delivery was not applied

	// For people alone, see RenderStatus.
	outcome            Outcome
	since, asked, sent time.Time
}

func newSession(cluster string, epoch int64, instance string, f *Fleet) *Session {
	return &Session{
		cluster: cluster, epoch: epoch, instance: instance, maxUnacked: f.cfg.MaxUnackedBytes, deliveries: &f.deliveries,
		done: make(chan struct{}), wake: make(chan struct{}, 1), renders: map[ID]*render{},
	}
}

// Instance tells the session's agent from other agents of the cluster.
func (s *Session) Instance() string { return s.instance }

// SameAgent says whether an agent is the session's. One without a name is nobody's.
func (s *Session) SameAgent(instance string) bool { return instance != "" && s.instance == instance }

// Epoch is the session's place among all sessions of its cluster.
func (s *Session) Epoch() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// Renumber gives the session a later epoch. It reports false when the session is
// over: then the epoch may be known to nobody who ends it.
func (s *Session) Renumber(epoch int64) bool {
	s.mu.Lock()
	s.epoch = epoch
	s.mu.Unlock()
	return !s.Over()
}

// End closes the session with a cause; the first cause counts.
func (s *Session) End(cause error) {
	s.end.Do(func() {
		s.cause = cause
		close(s.done)
	})
}

// Ended is closed when the session is over; Cause then says why.
func (s *Session) Ended() <-chan struct{} { return s.done }

// Cause is why the session is over, nil while it is not.
func (s *Session) Cause() error {
	select {
	case <-s.done:
		return s.cause
	default:
		return nil
	}
}

// Over says whether the session has ended.
func (s *Session) Over() bool { return s.Cause() != nil }

// Do calls do and reports true, or false when the session is over. No newer session of
// the cluster takes over before do returns: what an older one says late would undo
// what the newer said.
func (s *Session) Do(do func()) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.Over() {
		return false
	}
	do()
	return true
}

// Replace sets the whole inventory: what is not in it is forgotten.
func (s *Session) Replace(specs []Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
	keep := make(map[ID]bool, len(specs))
	for _, spec := range specs {
		keep[spec.ID] = true
		s.upsert(spec)
	}
	for id := range s.renders {
		if !keep[id] {
			s.remove(id)
		}
	}
}

// Upsert sets the spec of one Render; it is owed an answer again. It returns the
// number of Renders.
func (s *Session) Upsert(spec Spec) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upsert(spec)
	return len(s.renders)
}

func (s *Session) upsert(spec Spec) {
	r, ok := s.renders[spec.ID]
	if !ok {
		r = &render{}
		s.renders[spec.ID] = r
	}
	if r.asked.IsZero() || r.told != nil {
		r.asked = time.Now()
	}
	r.spec, r.told, r.pending = spec, nil, nil
}

// Remove forgets one Render.
func (s *Session) Remove(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id)
}

func (s *Session) remove(id ID) {
	r, ok := s.renders[id]
	if !ok {
		return
	}
	s.settle(r)
	delete(s.renders, id)
	s.signal()
}

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
	s.news.pop()
	r := s.renders[id]
	a := r.pending
	r.told, r.pending, r.failed = a.remembered(), nil, false
	r.conclude(Outcome{Refusal: a.Refusal})
	return Frame{ID: id, Answer: *a}
}

// send moves the pending answer out as a delivery.
func (s *Session) send(id ID) Frame {
	s.content.pop()
	r := s.renders[id]
	s.nonce++
	r.inflight, r.nonce = r.pending, s.nonce
	r.pending, r.failed, r.sent = nil, false, time.Now()
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
