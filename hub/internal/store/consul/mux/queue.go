package mux

import (
	"slices"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// queue holds the entries to be read: the most urgent first, with a share for the oldest
// (see [store.Share]), and of those that are as urgent the first that came.
type queue struct {
	came  uint64
	share store.Share
	lines [store.Priorities][]*entry
}

// push adds an entry, or makes it more urgent.
func (q *queue) push(e *entry, p store.Priority) {
	if e.queued && e.urgency <= p {
		return
	}
	if e.queued {
		line := &q.lines[e.urgency]
		at := slices.Index(*line, e)
		*line = slices.Delete(*line, at, at+1)
	}
	q.came++
	e.queued, e.urgency, e.number = true, p, q.came
	q.lines[p] = append(q.lines[p], e)
}

// first is nil when the queue is empty.
func (q *queue) first() *entry {
	if p, ok := q.share.Next(q.fronts()); ok {
		return q.lines[p][0]
	}
	return nil
}

// pop takes the first out.
func (q *queue) pop() {
	if e := q.first(); e != nil {
		q.share.Passed(e.number, q.fronts())
		e.queued = false
		q.lines[e.urgency] = q.lines[e.urgency][1:]
	}
}

func (q *queue) fronts() (fronts store.Fronts) {
	for p, line := range q.lines {
		if len(line) > 0 {
			fronts[p] = line[0].number
		}
	}
	return fronts
}

func (q *queue) len() int {
	count := 0
	for _, line := range q.lines {
		count += len(line)
	}
	return count
}
