package mux

import (
	"context"
	"errors"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// turn waits until something moves below the group's prefix, or its only key does, and
// has its keys read. Its news say whether the query was worth it. After an answer that
// cannot be relied on, it does not wait: the leader is asked how things are.
func (m *Mux) turn(ctx context.Context, g *group, done store.Done) (news bool, err error) {
	m.mu.Lock()
	query := Query{Prefix: g.prefix, Exact: len(g.keys) == 1, After: g.index}
	before, due := g.index, g.checked.Add(recheck)
	m.mu.Unlock()
	if g.doubt {
		query.After = 0
	}
	after, err := m.requests.Index(ctx, query)
	done(err)
	if g.doubt = errors.Is(err, ErrLags); g.doubt {
		return true, nil
	}
	quiet := after == before
	if err != nil || quiet && time.Now().Before(due) {
		return true, err
	}
	news = quiet || before == 0
	still := map[policy.Key]bool{}
	if before > 0 && after > before {
		m.narrow(ctx, m.keysOf(g), before, still)
	}
	moved, err := await(ctx, m.woken(g, after, still))
	return news || moved, err
}

// await waits for the rereads and answers whether one brought another version.
func await(ctx context.Context, reads []reread) (moved bool, err error) {
	for _, r := range reads {
		select {
		case <-ctx.Done():
			return moved, ctx.Err()
		case got := <-r.waiter.answer:
			moved = moved || got.settled() && got.version() != r.had
		}
	}
	return moved, nil
}

// reread is a read that a group waits for.
type reread struct {
	waiter *waiter
	had    string // the version before
}

// keysOf answers the keys of a group.
func (m *Mux) keysOf(g *group) []policy.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	return g.keys
}

// narrow finds the keys of a large scope below whose part nothing moved after the
// index, where asking for each part costs less than half of reading all keys.
func (m *Mux) narrow(ctx context.Context, keys []policy.Key, index uint64, still map[policy.Key]bool) {
	if len(keys) <= 4*m.batch {
		return
	}
	parts := cut(scopeOf(keys))
	if len(parts) > len(keys)/m.batch/2 {
		return
	}
	for _, part := range parts {
		at, err := m.ask(ctx, part.prefix)
		switch {
		case err != nil:
			return // reading the keys tells what is wrong
		case at > index:
			m.narrow(ctx, part.keys, index, still)
		default:
			for _, key := range part.keys {
				still[key] = true
			}
		}
	}
}

// ask lists a prefix without blocking, as urgently as the reads that it may spare.
func (m *Mux) ask(ctx context.Context, prefix string) (uint64, error) {
	done, err := m.gate.Enter(store.WithPriority(ctx, store.Prompt))
	if err != nil {
		return 0, err
	}
	index, err := m.requests.Index(ctx, Query{Prefix: prefix})
	done(err)
	return index, err
}

// woken has the keys of a group read whose query came back, but those that stand
// still; at first only those that are known from before the index.
func (m *Mux) woken(g *group, index uint64, still map[policy.Key]bool) []reread {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, urgency := g.index, store.Prompt
	if index == before {
		urgency = store.Periodic // nothing moved: it is time to read them anyway
	}
	m.advance(g, index)
	if before > 0 && len(still) == 0 {
		g.checked = time.Now()
	}
	var reads []reread
	for _, e := range g.members {
		switch {
		case before == 0 && e.asOf >= g.index:
			continue
		case still[e.key] && e.asOf >= before:
			e.asOf = max(e.asOf, index)
			continue
		}
		w := &waiter{answer: make(chan Reading, 1)}
		e.waiters[w] = struct{}{}
		m.enqueue(e, urgency)
		reads = append(reads, reread{w, e.version})
	}
	return reads
}
