package feed

import (
	"slices"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// turn is one request that waits to be let pass.
type turn struct {
	priority store.Priority
	place    bool          // it needs one of the places for requests at once
	passed   chan struct{} // closed when it may be sent
	probe    bool          // it passed while the store was down
	number   uint64        // in the order of coming
}

// queue orders turns: by priority, with a share for the oldest (see [store.Share]), and
// within a priority by their coming. Those that need no place have lines of their own, so
// that they pass while every place is taken.
type queue struct {
	came  uint64
	share store.Share
	lines [store.Priorities]struct{ placed, free []*turn }
}

func (q *queue) join(t *turn) {
	q.came++
	t.number = q.came
	line := q.lineOf(t)
	*line = append(*line, t)
}

// leave takes a turn out; false when it is not there.
func (q *queue) leave(t *turn) bool {
	line := q.lineOf(t)
	at := slices.Index(*line, t)
	if at < 0 {
		return false
	}
	*line = slices.Delete(*line, at, at+1)
	return true
}

// next is the one that is next of the turns that may pass: of those that need a place,
// of those that need none, or of both. It is nil when there is none.
func (q *queue) next(placed, free bool) *turn {
	p, ok := q.share.Next(q.fronts(placed, free))
	if !ok {
		return nil
	}
	return q.first(p, placed, free)
}

// pass takes out the turn that was next of those.
func (q *queue) pass(t *turn, placed, free bool) {
	q.share.Passed(t.number, q.fronts(placed, free))
	q.leave(t)
}

func (q *queue) fronts(placed, free bool) (fronts store.Fronts) {
	for p := range store.Priorities {
		if first := q.first(p, placed, free); first != nil {
			fronts[p] = first.number
		}
	}
	return fronts
}

// first is the turn of a priority that came first; nil when there is none.
func (q *queue) first(p store.Priority, placed, free bool) *turn {
	var first *turn
	if line := q.lines[p].placed; placed && len(line) > 0 {
		first = line[0]
	}
	if line := q.lines[p].free; free && len(line) > 0 && (first == nil || line[0].number < first.number) {
		first = line[0]
	}
	return first
}

// before counts the turns that a new one of the priority surely has before it.
func (q *queue) before(p store.Priority) int {
	count := 0
	for i := range p + 1 {
		count += len(q.lines[i].placed) + len(q.lines[i].free)
	}
	return count
}

func (q *queue) lineOf(t *turn) *[]*turn {
	if t.place {
		return &q.lines[t.priority].placed
	}
	return &q.lines[t.priority].free
}
