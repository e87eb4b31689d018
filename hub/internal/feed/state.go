package feed

import (
	"context"
	"time"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// request is a subscriber's wish for a fetch that begins after it.
type request struct {
	id    string
	stage requestStage
}

// requestStage is how far a request has come.
type requestStage int

const (
	requestAsked requestStage = iota
	requestSent               // the fetch is under way
	requestDone
)

// join adds a subscriber or changes its interval; called with owner.mu held.
func (d *feed) join(sub Subscriber, interval time.Duration) {
	old, known := d.subscribers[sub]
	d.subscribers[sub] = interval
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

// disturb ends a watch or rest; called with owner.mu held.
func (d *feed) disturb() {
	if d.interrupt != nil {
		d.interrupt()
	}
	d.poke()
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

// held is the last good version; nil before there was one.
func (d *feed) held() *store.Document {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	if d.doc == nil {
		return nil
	}
	return d.doc.Document
}

func (d *feed) isWanted() bool {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	return d.wanted
}

// snapshot is what a subscriber may know; called with owner.mu held.
func (d *feed) snapshot(sub Subscriber) Snapshot {
	asked, ok := d.requests[sub]
	return Snapshot{Document: d.doc, Err: d.err, Owed: ok && asked.stage != requestDone}
}

// ask wants a fetch, unless the subscriber's last request was the same; called with
// owner.mu held.
func (d *feed) ask(sub Subscriber, id string) {
	if last, ok := d.requests[sub]; ok && last.id == id {
		return
	}
	d.requests[sub] = &request{id: id}
	d.wanted = true
	d.disturb()
}

// heard says that the fetch that was asked for is about to be sent.
func (d *feed) heard() {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	d.wanted = false
	for _, asked := range d.requests {
		if asked.stage == requestAsked {
			asked.stage = requestSent
		}
	}
}

// fulfil ends the requests that were sent, and answers whose they are; called with
// owner.mu held.
func (d *feed) fulfil() []Subscriber {
	var subs []Subscriber
	for sub, asked := range d.requests {
		if asked.stage == requestSent {
			asked.stage = requestDone
			subs = append(subs, sub)
		}
	}
	return subs
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
