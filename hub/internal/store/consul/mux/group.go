package mux

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// hotPause and hotBurst bound how often a group's query is repeated that comes back
// at once.
const (
	hotPause = time.Second
	hotBurst = 3
	// recheck is how often a group's keys are read although nothing moved: Consul
	// tells a query neither that a right was taken away, nor of a restored snapshot
	// that ends at the same index.
	recheck = 10 * time.Minute
)

// group follows a scope with one blocking query after the other.
type group struct {
	scope

	cancel  context.CancelFunc
	members []*entry
	index   uint64    // to wait from; zero before the first answer
	checked time.Time // when all keys were read
	doubt   bool      // the last answer was of a server that lags; of follow alone
}

// replan forgets what nobody asks for, divides the watched keys anew and answers the
// groups to start. Called with mu held.
func (m *Mux) replan() []*group {
	m.planAt, m.unsplit = time.Time{}, time.Time{}
	wanted := map[string]scope{}
	for _, s := range m.divide(m.sweep()) {
		wanted[s.id()] = s
	}
	for id, g := range m.groups {
		if _, ok := wanted[id]; !ok {
			m.drop(g)
		}
	}
	var fresh []*group
	for id, s := range wanted {
		g, ok := m.groups[id]
		if !ok {
			// Not all groups at the same time.
			g = &group{checked: time.Now().Add(-rand.N(recheck))} //nolint:gosec // keeps no secret
			m.groups[id] = g
			fresh = append(fresh, g)
		}
		m.assign(g, s)
	}
	return fresh
}

// sweep answers the watched keys.
func (m *Mux) sweep() []policy.Key {
	var keys []policy.Key
	var next time.Time
	for key, e := range m.entries {
		if len(e.waiters) == 0 && !e.queued {
			end := e.idle.Add(linger)
			if !end.After(time.Now()) {
				delete(m.entries, key)
				continue
			}
			if next.IsZero() || end.Before(next) {
				next = end
			}
		}
		if e.watched {
			keys = append(keys, key)
		}
	}
	if !next.IsZero() {
		// Not for each of them on its own.
		m.planAt = next.Add(settle)
	}
	return keys
}

// divide splits the keys. Where prefixes cannot be listed it gives a query to as
// many keys as have room, first to those that have one, and sends the others away.
func (m *Mux) divide(keys []policy.Key) []scope {
	if len(keys) <= maxGroups || !time.Now().Before(m.listAt) {
		return split(keys, maxGroups)
	}
	slices.SortFunc(keys, func(a, b policy.Key) int {
		return m.rank(a) - m.rank(b)
	})
	for _, key := range keys[maxGroups:] {
		e := m.entries[key]
		e.watched = false
		m.refuse(e, store.ErrNotWatched)
	}
	return split(keys[:maxGroups], maxGroups)
}

func (m *Mux) rank(key policy.Key) int {
	if g := m.entries[key].group; g != nil && len(g.keys) == 1 {
		return 0
	}
	return 1
}

// assign gives a group its keys. Those that come to a query under way are read when
// they are known from before the index that it waits from.
func (m *Mux) assign(g *group, s scope) {
	g.scope = s
	g.members = g.members[:0:0]
	for _, key := range s.keys {
		e := m.entries[key]
		if e.group != g && g.index > 0 && e.asOf < g.index {
			m.enqueue(e, store.Periodic)
		}
		e.group = g
		g.members = append(g.members, e)
	}
	if len(g.members) == 1 && g.index == 0 {
		g.index = indexOf(g.members[0].version)
	}
}

// drop ends a group; called with mu held.
func (m *Mux) drop(g *group) {
	g.cancel()
	delete(m.groups, g.id())
	for _, e := range g.members {
		if e.group == g {
			e.group = nil
		}
	}
}

// refuse ends the watches of a key with an error; called with mu held.
func (m *Mux) refuse(e *entry, err error) {
	m.deliver(e, Reading{Err: err}, m.clock, nil)
}

// follow makes a group's queries until the context ends or one fails.
func (m *Mux) follow(ctx context.Context, g *group) {
	pace := rate.NewLimiter(rate.Every(hotPause), hotBurst)
	vain, asked := 0, time.Time{}
	for {
		pause := calm(vain) - time.Since(asked)
		if sleep(ctx, max(pace.Reserve().Delay(), pause)) != nil {
			return
		}
		done, err := m.gate.Admit(ctx)
		if err != nil {
			return
		}
		asked = time.Now()
		news, err := m.turn(ctx, g, done)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.fail(g, err)
			return
		}
		vain++
		if news {
			vain = 0
		}
	}
}

// advance moves a group's index on. It starts anew when the store's index went back
// (a restored snapshot, a rebuilt cluster, forgotten deletions): waiting for the old
// one would wait for ever, and nothing is known as of an index any more. Called with
// mu held.
func (m *Mux) advance(g *group, answered uint64) {
	if answered >= g.index {
		g.index = answered
		m.index = max(m.index, answered)
		return
	}
	g.index = 0
	m.index = answered
	m.era++
	for _, e := range m.entries {
		e.asOf = 0
	}
}

// fail tells everybody of the group why it ends.
func (m *Mux) fail(g *group, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, ErrRefused) {
		m.listAt = time.Now().Add(refusedFor)
	}
	m.drop(g)
	for _, e := range g.members {
		if !errors.Is(err, ErrRefused) { // else the next plan has room for some
			m.refuse(e, err)
			e.watched = false // until somebody comes back
		}
	}
	m.planAt = time.Now().Add(settle)
	m.look()
}

// sleep waits, or answers the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
