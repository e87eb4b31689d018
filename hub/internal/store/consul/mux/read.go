package mux

import (
	"context"
	"errors"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// batchKeys is how many operations every version of Consul takes in one
	// transaction.
	batchKeys = 64
	// batchBytes bounds a batch by the sizes of the last readings.
	batchBytes = store.MaxDocumentBytes
)

// batch is a request for some documents.
type batch struct {
	entries []*entry
	fetches [][]*waiter // of each entry: answered whatever the answer is
	sent    uint64      // clock
	floor   uint64      // the highest index known when it was sent
	era     int
}

func (b batch) keys() []policy.Key {
	keys := make([]policy.Key, len(b.entries))
	for n, e := range b.entries {
		keys[n] = e.key
	}
	return keys
}

// enqueue has a document read; called with mu held.
func (m *Mux) enqueue(e *entry, p store.Priority) {
	m.queue.push(e, p)
	m.hasten()
	m.look()
}

// read makes one request for what is queued when the gate lets it.
func (m *Mux) read(ctx context.Context, e *entrance) {
	done, err := m.enter(ctx, e)
	got := m.take(e, err != nil)
	if err != nil {
		return
	}
	if len(got.entries) == 0 {
		done(context.Canceled) // others took what was queued
	} else {
		m.request(ctx, got, done)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads--
	m.look()
}

// take empties the queue into a batch; none when the gate stays shut.
func (m *Mux) take(by *entrance, shut bool) batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave(by)
	if shut {
		m.reads--
		return batch{}
	}
	m.clock++
	got := batch{sent: m.clock, floor: m.index, era: m.era}
	most, bytes := m.batch, 0
	if time.Now().Before(m.batchAt) {
		most = 1
	}
	for e := m.queue.first(); e != nil; e = m.queue.first() {
		bytes += e.size
		if n := len(got.entries); n == most || n > 0 && bytes > batchBytes {
			break
		}
		m.queue.pop()
		var fetches []*waiter
		for w := range e.waiters {
			if !w.watch {
				fetches = append(fetches, w)
				delete(e.waiters, w)
			}
		}
		got.entries = append(got.entries, e)
		got.fetches = append(got.fetches, fetches)
	}
	m.look() // what is left is for the next
	return got
}

// request makes the request and hands out what it answers.
func (m *Mux) request(ctx context.Context, b batch, done store.Done) {
	var readings []Reading
	var err error
	if len(b.entries) == 1 {
		readings = []Reading{m.requests.Get(ctx, b.entries[0].key)}
		done(readings[0].Err)
	} else {
		readings, err = m.requests.Read(ctx, b.keys())
		done(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, ErrRefused):
		m.batchAt = time.Now().Add(refusedFor)
		m.requeue(b)
	case errors.Is(err, ErrTooLarge):
		// Each counts twice its share, so that the next batches are half as large.
		for _, e := range b.entries {
			e.size = max(e.size, 2*batchBytes/len(b.entries))
		}
		m.requeue(b)
	case err != nil:
		for n, e := range b.entries {
			m.deliver(e, Reading{Err: err}, b.sent, b.fetches[n])
		}
	default:
		for n, e := range b.entries {
			got := readings[n]
			if b.era == m.era {
				// It saw what any request saw before.
				got.Index = max(got.Index, b.floor)
			}
			m.deliver(e, got, b.sent, b.fetches[n])
		}
	}
}

// requeue puts a batch back that has to be asked for otherwise.
func (m *Mux) requeue(b batch) {
	for n, e := range b.entries {
		for _, w := range b.fetches[n] {
			e.waiters[w] = struct{}{}
		}
		m.enqueue(e, e.urgency)
	}
}

// deliver hands out a reading of a request that was sent at that clock; called with
// mu held. The fetches gave up their place among the waiters.
func (m *Mux) deliver(e *entry, got Reading, sent uint64, fetches []*waiter) {
	for _, w := range fetches {
		w.answer <- got
	}
	if got.settled() && !m.note(e, got, sent) {
		return
	}
	for w := range e.waiters {
		// A fetch that came meanwhile waits for a request of its own.
		if w.watch && (!got.settled() || got.version() != w.after) {
			w.answer <- got
			delete(e.waiters, w)
		}
	}
	m.rest(e)
}

// note keeps what a reading says; false when it may be older than what is known:
// requests overtake each other.
func (m *Mux) note(e *entry, got Reading, sent uint64) bool {
	same := e.known && e.version == got.version()
	if !same && sent < e.updated && got.Index < e.asOf {
		return false
	}
	if same {
		got.Index = max(got.Index, e.asOf)
	}
	m.clock++
	e.known, e.version, e.asOf, e.updated = true, got.version(), got.Index, m.clock
	e.size = 0
	if got.Doc != nil {
		e.size = len(got.Doc.Text)
	}
	m.index = max(m.index, got.Index)
	return true
}
