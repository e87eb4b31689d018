package feed

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// What a feed tells its subscribers.

// begin says that a fetch begins, and why it waits when the store is down.
func (d *feed) begin() {
	d.owner.mu.Lock()
	d.fetching = true
	told := d.stall()
	d.owner.mu.Unlock()
	for _, sub := range told {
		d.owner.wake(sub)
	}
}

// stall notes that a fetch has to wait while the store is down, and answers whom to
// wake; called with owner.mu held.
func (d *feed) stall() []Subscriber {
	why, _ := d.source.gate.outage()
	if why == nil || !d.fetching || store.ReasonOf(d.err) == why.Reason {
		return nil
	}
	d.err = about(why, "fetch", d.id.key)
	return d.audience()
}

// about says of a failure of the store what it kept from being done.
func about(why *store.Error, op string, key policy.Key) *store.Error {
	return &store.Error{Reason: why.Reason, Op: op, Key: string(key), Err: why.Err}
}

// publish keeps the result and wakes the subscribers when it is news to them.
func (d *feed) publish(got result) {
	for _, sub := range d.keep(got) {
		d.owner.wake(sub)
	}
}

// keep answers whom to wake: everybody by news, and who asked for the fetch in any
// case.
func (d *feed) keep(got result) []Subscriber {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	d.fetching = false
	asked := d.fulfil()
	if d.released {
		return nil
	}
	news := !sameError(d.err, got.err)
	d.err = got.err
	switch {
	case got.err == nil:
		d.answered = true
		news = d.take(got.doc) || news
	case !isOutage(got.err):
		d.answered, d.missed = true, false // who is woken when it ends asks again
	}
	if !news {
		return asked
	}
	return d.audience()
}

// audience is whom news are for; called with owner.mu held.
func (d *feed) audience() []Subscriber {
	return slices.Collect(maps.Keys(d.subscribers))
}

// sameError compares what two errors say about one document; what was being done is
// not news.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	known, typed := errors.AsType[*store.Error](a)
	other, both := errors.AsType[*store.Error](b)
	if !typed || !both {
		return a.Error() == b.Error()
	}
	return known.Reason == other.Reason && fmt.Sprint(known.Err) == fmt.Sprint(other.Err)
}
