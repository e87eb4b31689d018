package mux

import (
	"strconv"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// entry is what is known of one key while somebody asks for it, and a little longer.
type entry struct {
	key     policy.Key
	known   bool // version says what it was
	version string
	asOf    uint64 // index of the store at which it was so
	updated uint64 // clock of the last reading
	size    int    // bytes
	queued  bool
	urgency store.Priority // in the queue
	number  uint64         // in the queue, in the order of coming
	watched bool
	waiters map[*waiter]struct{}
	idle    time.Time // since when nobody waits
	group   *group
}

// waiter is a call that waits: a watch for another version than after, a fetch for
// the next read.
type waiter struct {
	watch   bool
	after   string
	urgency store.Priority
	answer  chan Reading // room for one
}

// join adds a waiter.
func (m *Mux) join(key policy.Key, w *waiter) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok {
		e = &entry{key: key, waiters: map[*waiter]struct{}{}}
		m.entries[key] = e
	}
	e.waiters[w] = struct{}{}
	if !w.watch {
		m.enqueue(e, w.urgency)
		return e
	}
	e.watched = true
	if !e.known {
		// The caller read it, when the store was at that index.
		e.known, e.version, e.asOf = true, w.after, indexOf(w.after)
	}
	if e.version != w.after || e.isBehind() {
		m.enqueue(e, w.urgency)
	}
	if e.group == nil {
		m.planSoon()
	}
	return e
}

// isBehind says whether the group's query waits from an index at which the key was
// not read: a read failed meanwhile.
func (e *entry) isBehind() bool {
	return e.group != nil && e.asOf < e.group.index
}

// indexOf answers the index of a version; zero where there is none.
func indexOf(version string) uint64 {
	index, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return index
}

// part removes a waiter whose call ended.
func (m *Mux) part(e *entry, w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(e.waiters, w)
	m.rest(e)
}

// rest notes when nobody waits any more; called with mu held.
func (m *Mux) rest(e *entry) {
	if len(e.waiters) > 0 {
		return
	}
	e.idle = time.Now()
	if m.planAt.IsZero() {
		m.planAt = e.idle.Add(linger)
		m.look()
	}
}
