package mirror

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// eventQueue is a watch.Interface that never blocks its writer. Its length is
// bounded by the inventory: the reflector reads it without waiting on anybody.
type eventQueue struct {
	// mu guards events.
	mu     sync.Mutex
	events []watch.Event

	wake chan struct{}
	out  chan watch.Event
	stop chan struct{}
	once sync.Once
}

var _ watch.Interface = (*eventQueue)(nil)

// newEventQueue starts a queue; Stop ends its goroutine.
func newEventQueue() *eventQueue {
	q := &eventQueue{wake: make(chan struct{}, 1), out: make(chan watch.Event), stop: make(chan struct{})}
	go q.run()
	return q
}

// ResultChan is where the reflector reads.
func (q *eventQueue) ResultChan() <-chan watch.Event { return q.out }

// Stop ends the watch; the reflector calls it.
func (q *eventQueue) Stop() { q.once.Do(func() { close(q.stop) }) }

func (q *eventQueue) add(e watch.Event) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *eventQueue) run() {
	defer close(q.out)
	for {
		q.mu.Lock()
		events := q.events
		q.events = nil
		q.mu.Unlock()
		for _, e := range events {
			select {
			case q.out <- e:
			case <-q.stop:
				return
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-q.wake:
		case <-q.stop:
			return
		}
	}
}
