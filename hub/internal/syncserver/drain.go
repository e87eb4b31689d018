package syncserver

import (
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// open are the sessions that may be asked to move.
type open struct {
	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

// hold notes a session until release is called.
func (o *open) hold(c *conn) (release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = map[*conn]struct{}{}
	}
	o.conns[c] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.conns, c)
	}
}

// all are the sessions, in an order of chance.
func (o *open) all() []*conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	conns := make([]*conn, 0, len(o.conns))
	for c := range o.conns {
		conns = append(conns, c)
	}
	rand.Shuffle(len(conns), func(i, j int) { conns[i], conns[j] = conns[j], conns[i] }) //nolint:gosec // G404: spreads load, guards nothing
	return conns
}

// Drain asks every spoke to open its next session elsewhere at a random point of
// the window, and refuses new sessions from now on.
func (s *Server) Drain(window time.Duration) {
	s.drainOnce.Do(func() {
		s.drainWindow = window
		close(s.draining)
	})
}

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Move asks n spokes to open their next session at a random point of the window, on
// whichever replica they are led to, and says how many it asked: fewer where the others
// were asked before.
func (s *Server) Move(n int, window time.Duration) (asked int) {
	if s.isDraining() {
		return 0 // all are asked to go, sooner than this
	}
	for _, c := range s.open.all() {
		if asked == n {
			break
		}
		if c.drain(fleetv1.Drain_REASON_REBALANCE, window) {
			asked++
		}
	}
	return asked
}

// drain asks the spoke for its next session. It reports false where that was done
// before: the first request counts.
func (c *conn) drain(reason fleetv1.Drain_Reason, window time.Duration) bool {
	if c.told.Swap(true) {
		return false
	}
	c.drains <- &fleetv1.Drain{Reason: reason, Window: durationpb.New(window)} // has room for one
	return true
}
