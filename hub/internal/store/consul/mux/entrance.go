package mux

import (
	"cmp"
	"context"
	"slices"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// entrance is a read that waits for the gate.
type entrance struct {
	urgency store.Priority     // that it waits with
	rejoin  context.CancelFunc // has it wait anew; nil before it waits
}

// queueUp adds an entrance for one more read; called with mu held.
func (m *Mux) queueUp() *entrance {
	e := &entrance{urgency: m.urgency()}
	m.entrances = append(m.entrances, e)
	return e
}

// enter waits for the gate. Who is asked for more urgently meanwhile waits anew.
func (m *Mux) enter(ctx context.Context, e *entrance) (store.Done, error) {
	for {
		own, cancel := context.WithCancel(ctx)
		done, err := m.gate.Enter(store.WithPriority(own, m.urgencyOf(e, cancel)))
		again := err != nil && own.Err() != nil && ctx.Err() == nil
		cancel()
		if !again {
			return done, err
		}
	}
}

// urgencyOf answers what to wait with, and lets rejoin end the wait.
func (m *Mux) urgencyOf(e *entrance, rejoin context.CancelFunc) store.Priority {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.rejoin = rejoin
	return e.urgency
}

// leave takes an entrance out; called with mu held.
func (m *Mux) leave(e *entrance) {
	m.entrances = slices.DeleteFunc(m.entrances, func(other *entrance) bool { return other == e })
}

// urgency is that of the most urgent key in the queue beyond those that the entrances
// take, each a batch; called with mu held.
func (m *Mux) urgency() store.Priority {
	left := 0
	for p, line := range m.queue.lines {
		left += len(line)
		for _, e := range m.entrances {
			if e.urgency == store.Priority(p) {
				left -= m.batch
			}
		}
		if left > 0 {
			return store.Priority(p)
		}
	}
	return store.Periodic
}

// hasten has the least urgent entrance wait anew for a key that is more urgent than
// what the entrances take; called with mu held.
func (m *Mux) hasten() {
	if len(m.entrances) == 0 {
		return
	}
	least := slices.MaxFunc(m.entrances, func(a, b *entrance) int { return cmp.Compare(a.urgency, b.urgency) })
	if p := m.urgency(); p < least.urgency {
		least.urgency = p
		if least.rejoin != nil {
			least.rejoin()
		}
	}
}
