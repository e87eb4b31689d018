package fleet

import (
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
	outcome Outcome
	since   instant // of the outcome
	moved   instant // when the spec came, or what is under way left
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
	if r.moved == 0 || r.told != nil {
		r.moved = now()
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
	s.news.drop(id)
	s.content.drop(id)
	s.signal()
}
