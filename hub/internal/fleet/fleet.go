package fleet

import (
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultMaxUnackedBytes bounds what is sent to one cluster and not answered: eight
// of the largest documents (1,000,000 bytes each).
const DefaultMaxUnackedBytes = 8 << 20

// Config says how a Fleet is set up.
type Config struct {
	// MaxUnackedBytes per session; DefaultMaxUnackedBytes when 0.
	MaxUnackedBytes int
	// Detached is called, outside any lock, when a cluster has lost its last session.
	// May be nil.
	Detached func(cluster string)
}

// Fleet is the set of connected clusters. It is safe for concurrent use.
type Fleet struct {
	cfg        Config
	deliveries atomic.Int64

	// mu guards sessions; what is inside a session has its own lock. Those of a
	// cluster are in the order of their epochs: the first serves it, and a second one
	// of the same agent is about to take over. There are no more.
	mu       sync.Mutex
	sessions map[string][]*Session
}

// New returns a Fleet without clusters.
func New(cfg Config) *Fleet {
	if cfg.MaxUnackedBytes == 0 {
		cfg.MaxUnackedBytes = DefaultMaxUnackedBytes
	}
	return &Fleet{cfg: cfg, sessions: map[string][]*Session{}}
}

// Connect opens a session of a cluster: the epoch orders its sessions on all
// replicas, the instance is the agent's. Where there is an older session of the same
// agent, that one serves on until the new one takes over; any other older session
// ends with cause ErrSuperseded. Where there is a newer one, Connect fails with that.
// The caller detaches the session when done.
func (f *Fleet) Connect(cluster string, epoch int64, instance string) (*Session, error) {
	s := newSession(cluster, epoch, instance, f)
	f.mu.Lock()
	defer f.mu.Unlock()
	open := f.sessions[cluster]
	if len(open) > 0 && open[len(open)-1].Epoch() > epoch {
		return nil, ErrSuperseded
	}
	for i, older := range open {
		if i > 0 || !older.SameAgent(instance) {
			older.End(ErrSuperseded)
		}
	}
	f.sessions[cluster] = append(open[:min(len(open), 1)], s)
	return s, nil
}

// TakeOver makes a session the one that serves its cluster, once its inventory is
// whole. The one before it ends with cause ErrSuperseded, and TakeOver waits for what
// that one is doing; so call it inside Do. It reports false when the session is over
// itself.
func (f *Fleet) TakeOver(s *Session) bool {
	f.mu.Lock()
	open := f.sessions[s.cluster]
	at := slices.Index(open, s)
	if at > 0 {
		f.sessions[s.cluster] = []*Session{s}
	}
	f.mu.Unlock()
	if at > 0 {
		older := open[0]
		older.End(ErrSuperseded)
		older.turn.Lock()
		older.turn.Unlock() //nolint:staticcheck // SA2001: only waited for
		s.inherit(older)
	}
	return at >= 0
}

// Detach removes a session once its stream is over.
func (f *Fleet) Detach(s *Session) {
	s.End(ErrDetached)
	f.mu.Lock()
	open := f.sessions[s.cluster]
	rest := slices.DeleteFunc(slices.Clone(open), func(other *Session) bool { return other == s })
	f.sessions[s.cluster] = rest
	if len(rest) == 0 {
		delete(f.sessions, s.cluster)
	}
	f.mu.Unlock()
	if len(open) > 0 && len(rest) == 0 && f.cfg.Detached != nil {
		f.cfg.Detached(s.cluster)
	}
}

// End closes every session of a cluster with a cause.
func (f *Fleet) End(cluster string, cause error) {
	for _, s := range f.Sessions(cluster) {
		s.End(cause)
	}
}

// Sessions returns those of a cluster, the one that serves it first.
func (f *Fleet) Sessions(cluster string) []*Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sessions[cluster])
}

// Connected says whether a cluster has a session here.
func (f *Fleet) Connected(cluster string) bool { return f.serving(cluster) != nil }

// Deliveries is how often content was sent to a cluster.
func (f *Fleet) Deliveries() int64 { return f.deliveries.Load() }

// IfDisconnected calls do if a cluster has no session here; none opens before do
// returns. No cluster is served meanwhile, so do must be quick, and it must not call
// the Fleet.
func (f *Fleet) IfDisconnected(cluster string, do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sessions[cluster]) == 0 {
		do()
	}
}

// Clusters returns the names of the connected clusters, sorted.
func (f *Fleet) Clusters() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.sessions))
	for name := range f.sessions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Deliver sets the latest answer for one Render. It never blocks. Without a session
// the answer is dropped: the next session's inventory asks again.
func (f *Fleet) Deliver(cluster string, id ID, a Answer) {
	if s := f.serving(cluster); s != nil {
		s.deliver(id, a)
	}
}

// Report returns how many Renders of a connected cluster there are, by state; false
// while no whole inventory says so.
func (f *Fleet) Report(cluster string) (Report, bool) {
	s := f.serving(cluster)
	if s == nil {
		return Report{}, false
	}
	return s.report()
}

// serving is the session that serves a cluster; nil for none.
func (f *Fleet) serving(cluster string) *Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open := f.sessions[cluster]; len(open) > 0 {
		return open[0]
	}
	return nil
}
