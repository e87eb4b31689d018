package fleet

// queue is the Renders that wait for their turn, each once. Its zero value is empty.
type queue struct {
	ids    []ID
	queued map[ID]bool // what is in ids
}

// push adds a Render at the end, unless it is there.
func (q *queue) push(id ID) {
	if q.queued[id] {
		return
	}
	if q.queued == nil {
		q.queued = map[ID]bool{}
	}
	q.queued[id] = true
	q.ids = append(q.ids, id)
}

// first returns the first Render that still waits, and drops those before it.
func (q *queue) first(waits func(ID) bool) (ID, bool) {
	for len(q.ids) > 0 {
		if waits(q.ids[0]) {
			return q.ids[0], true
		}
		q.pop()
	}
	return ID{}, false
}

// pop drops the first Render.
func (q *queue) pop() {
	delete(q.queued, q.ids[0])
	q.ids = q.ids[1:]
}
