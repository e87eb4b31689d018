package mux

import (
	"slices"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// queue holds the entries to be read: the most urgent first, and of those that are
// as urgent the first that came.
type queue [store.Priorities][]*entry

// push adds an entry, or makes it more urgent.
func (q *queue) push(e *entry, p store.Priority) {
	if e.queued && e.urgency <= p {
		return
	}
	if e.queued {
		line := &q[e.urgency]
		at := slices.Index(*line, e)
		*line = slices.Delete(*line, at, at+1)
	}
	e.queued, e.urgency = true, p
	q[p] = append(q[p], e)
}

// first is nil when the queue is empty.
func (q *queue) first() *entry {
	for _, line := range q {
		if len(line) > 0 {
			return line[0]
		}
	}
	return nil
}

// pop takes the first out.
func (q *queue) pop() {
	if e := q.first(); e != nil {
		e.queued = false
		q[e.urgency] = q[e.urgency][1:]
	}
}

func (q *queue) len() int {
	count := 0
	for _, line := range q {
		count += len(line)
	}
	return count
}
