package feed

import (
	"context"
	"time"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// join adds a subscriber or changes its interval; called with owner.mu held.
func (d *feed) join(sub Subscriber, interval time.Duration) {
	old, known := d.subscribers[sub]
	d.subscribers[sub] = interval
	if !known || old != interval {
		d.hurry()
	}
	switch {
	case len(d.subscribers) == 1 || interval < d.interval:
		d.setInterval(interval)
	case known && old == d.interval && interval > old:
		d.setInterval(d.shortest())
	}
}

// part removes a subscriber and answers how many are left; called with owner.mu
// held.
func (d *feed) part(sub Subscriber) int {
	old := d.subscribers[sub]
	delete(d.subscribers, sub)
	delete(d.requests, sub)
	if len(d.subscribers) > 0 && old == d.interval {
		d.setInterval(d.shortest())
	}
	return len(d.subscribers)
}

// shortest is the shortest interval of those who are left; none is below the one
// until now, so the first that equals it ends the search.
func (d *feed) shortest() time.Duration {
	var found time.Duration
	for _, interval := range d.subscribers {
		if interval == d.interval {
			return interval
		}
		if found == 0 || interval < found {
			found = interval
		}
	}
	return found
}

func (d *feed) setInterval(interval time.Duration) {
	if interval == d.interval {
		return
	}
	d.interval = interval
	d.poke()
}

// want asks for a fetch now; called with owner.mu held.
func (d *feed) want() {
	d.wanted = true
	d.hurry()
	if d.interrupt != nil {
		d.interrupt()
	}
	d.poke()
}

// hurry makes the next fetch one that somebody waits for, also when it is in the
// queue already; called with owner.mu held.
func (d *feed) hurry() {
	d.prompt = true
	if d.rejoin != nil && d.urgency() < d.joined {
		d.rejoin()
	}
}

// urgency is the priority of the next fetch; called with owner.mu held.
func (d *feed) urgency() store.Priority {
	switch {
	case !d.answered || d.missed:
		return store.First
	case d.prompt:
		return store.Prompt
	}
	return store.Periodic
}

// priority is the same for who does not hold owner.mu.
func (d *feed) priority() store.Priority {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	return d.urgency()
}

// queued answers the priority to join the queue with, and lets rejoin end the wait.
func (d *feed) queued(rejoin context.CancelFunc) store.Priority {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	d.rejoin, d.joined = rejoin, d.urgency()
	return d.joined
}

func (d *feed) unqueued() {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	d.rejoin = nil
}

func (d *feed) poke() {
	select {
	case d.nudge <- struct{}{}:
	default: // the last nudge was not seen yet
	}
}

func (d *feed) currentInterval() time.Duration {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	return d.interval
}

// known is the version to poll from; nil when the document has to be fetched.
func (d *feed) known() *store.Document {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	if d.missed {
		return nil
	}
	return d.last
}

func (d *feed) isWanted() bool {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	return d.wanted
}

// failsWithItsStore says whether the document failed for what takes its store to be down
// now.
func (d *feed) failsWithItsStore() bool {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	why, _ := d.source.gate.outage()
	return why != nil && isDown(store.ReasonOf(d.err))
}

// heard says that the fetch that was asked for is about to be sent.
func (d *feed) heard() {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	d.wanted, d.prompt = false, false
	d.sent()
}

// interruptible lets Refresh end the watch that is about to begin; false when a
// fetch is wanted already.
func (d *feed) interruptible(cancel context.CancelFunc) bool {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	if d.wanted {
		return false
	}
	d.interrupt = cancel
	return true
}

func (d *feed) uninterruptible() {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	d.interrupt = nil
}
