package fleet

import "container/list"

// queue is the Renders that wait for their turn, each once. Its zero value is empty.
type queue struct {
	line list.List // of ID
	at   map[ID]*list.Element
}

// push adds a Render at the end, unless it is there.
func (q *queue) push(id ID) {
	if q.at[id] != nil {
		return
	}
	if q.at == nil {
		q.at = map[ID]*list.Element{}
	}
	q.at[id] = q.line.PushBack(id)
}

// first returns the first Render that still waits, and drops those before it.
func (q *queue) first(waits func(ID) bool) (ID, bool) {
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		id, _ := e.Value.(ID)
		if waits(id) {
			return id, true
		}
		q.drop(id)
	}
	return ID{}, false
}

// drop takes a Render out, wherever it is.
func (q *queue) drop(id ID) {
	if e := q.at[id]; e != nil {
		q.line.Remove(e)
		delete(q.at, id)
	}
}
