package fleet

import (
	"slices"
	"sync"
)

// DefaultMaxUnackedBytes bounds what is sent to one cluster and not answered: eight
// of the largest documents (1,000,000 bytes each).
const DefaultMaxUnackedBytes = 8 << 20

// Config says how a Fleet is set up.
type Config struct {
	// MaxUnackedBytes per session; DefaultMaxUnackedBytes when 0.
	MaxUnackedBytes int
	// Detached is called, outside any lock, when a cluster has lost its session and
	// no newer one took over. May be nil.
	Detached func(cluster string)
}

// Fleet is the set of connected clusters. It is safe for concurrent use.
type Fleet struct {
	cfg Config

	// mu guards sessions; what is inside a session has its own lock.
	mu       sync.Mutex
	sessions map[string]*Session
}

// New returns a Fleet without clusters.
func New(cfg Config) *Fleet {
	if cfg.MaxUnackedBytes == 0 {
		cfg.MaxUnackedBytes = DefaultMaxUnackedBytes
	}
	return &Fleet{cfg: cfg, sessions: map[string]*Session{}}
}

// Connect opens the session of a cluster. An older session of the same cluster is
// ended with cause ErrSuperseded, and Connect waits for what that one is doing. The
// caller detaches the session when done.
func (f *Fleet) Connect(cluster string) *Session {
	s := newSession(cluster, f.cfg.MaxUnackedBytes)
	s.turn.Lock() // a still newer session waits for both
	defer s.turn.Unlock()
	f.mu.Lock()
	old := f.sessions[cluster]
	f.sessions[cluster] = s
	f.mu.Unlock()
	if old != nil {
		old.End(ErrSuperseded)
		old.turn.Lock()
		old.turn.Unlock() //nolint:staticcheck // SA2001: only waited for
	}
	return s
}

// Detach removes a session once its stream is over, unless a newer one took over.
func (f *Fleet) Detach(s *Session) {
	s.End(ErrDetached)
	f.mu.Lock()
	current := f.sessions[s.cluster] == s
	if current {
		delete(f.sessions, s.cluster)
	}
	f.mu.Unlock()
	if current && f.cfg.Detached != nil {
		f.cfg.Detached(s.cluster)
	}
}

// End closes the session of a cluster, if it has one, with a cause.
func (f *Fleet) End(cluster string, cause error) {
	if s := f.session(cluster); s != nil {
		s.End(cause)
	}
}

// Connected says whether a cluster has a session here.
func (f *Fleet) Connected(cluster string) bool { return f.session(cluster) != nil }

// IfDisconnected calls do if a cluster has no session here; none opens before do
// returns. No cluster is served meanwhile, so do must be quick, and it must not call
// the Fleet.
func (f *Fleet) IfDisconnected(cluster string, do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[cluster] == nil {
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
	if s := f.session(cluster); s != nil {
		s.deliver(id, a)
	}
}

// Report returns how many Renders of a connected cluster there are, by state; false
// while no whole inventory says so.
func (f *Fleet) Report(cluster string) (Report, bool) {
	s := f.session(cluster)
	if s == nil {
		return Report{}, false
	}
	return s.report()
}

func (f *Fleet) session(cluster string) *Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[cluster]
}
