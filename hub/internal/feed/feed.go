package feed

import (
	"container/list"
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// fetchTimeout keeps a store that hangs from holding a place for ever; stores
	// have shorter timeouts of their own.
	fetchTimeout = 30 * time.Second
	// A document that changes all the time is delivered once a second, after a few
	// changes at once.
	changePause = time.Second
	changeBurst = 3
)

type feedID struct {
	source sourceID
	key    policy.Key
}

// feed follows one document of one source, in a goroutine of its own.
type feed struct {
	id     feedID
	owner  *Feeds
	source *source
	nudge  chan struct{} // tells a resting feed that interval or wanted changed

	// Guarded by owner.mu:
	subscribers map[Subscriber]time.Duration
	requests    map[Subscriber]*request
	interval    time.Duration   // the shortest of the subscribers
	doc         *Document       // the last good version; nil before it, and when given up
	last        *store.Document // the same, but for the content when that is given up
	missed      bool            // the content is asked for again
	listed      *list.Element   // in the budget; nil without doc
	size        int64           // of doc, in bytes
	err         error
	fetching    bool               // a fetch waits or is under way
	answered    bool               // the store said something about this document
	wanted      bool               // a fetch was asked for
	prompt      bool               // the next fetch is one that somebody waits for
	released    bool               // nobody subscribes any more
	cancel      context.CancelFunc // ends the goroutine; nil before it began
	interrupt   context.CancelFunc // ends the watch under way; nil without one
	joined      store.Priority     // what the waiting fetch joined the queue with
	rejoin      context.CancelFunc // has the waiting fetch join the queue anew; nil without one
}

// result is the end of a fetch or watch.
type result struct {
	doc *store.Document
	err error
}

// settled says whether the store gave its word: a document, or none.
func (r result) settled() bool {
	return r.err == nil || store.IsAbsent(r.err)
}

// bare is what is needed of a result that was published: a watch may block for long,
// and must not hold on to a document that was given up.
func (r result) bare() result {
	if r.doc != nil {
		r.doc = bare(r.doc)
	}
	return r
}

// version is what a watch goes on from.
func (r result) version() string {
	if r.doc == nil {
		return ""
	}
	return r.doc.Version
}

// run follows the document until the context ends.
func (d *feed) run(ctx context.Context) {
	next := newPlan(d.id)
	for ctx.Err() == nil {
		got := d.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		d.publish(got)
		if got.settled() {
			got = d.follow(ctx, got.bare())
		}
		next = next.after(got, time.Now())
		d.rest(ctx, next)
	}
}

// fetch makes one request, when the source lets it. A multiplexer's requests are let
// pass one by one, and bounded, by itself.
func (d *feed) fetch(ctx context.Context) result {
	d.begin()
	reader, err := d.source.get()
	if err != nil {
		d.heard()
		return d.judge(result{err: err})
	}
	if _, ok := reader.(store.Multiplexer); ok {
		urgent := store.WithPriority(ctx, d.priority())
		d.heard()
		return d.ask(urgent, reader)
	}
	done, err := d.enter(ctx)
	if err != nil {
		return result{err: err}
	}
	d.heard()
	bounded, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	got := d.ask(bounded, reader)
	done(got.err)
	return got
}

// enter waits for a place. Who is asked for more urgently meanwhile joins the queue
// anew.
func (d *feed) enter(ctx context.Context) (store.Done, error) {
	for {
		own, cancel := context.WithCancel(ctx)
		done, err := d.source.Enter(store.WithPriority(own, d.queued(cancel)))
		d.unqueued()
		cancel()
		if err == nil || ctx.Err() != nil {
			return done, err
		}
	}
}

// ask makes the request.
func (d *feed) ask(ctx context.Context, reader store.Reader) result {
	d.owner.fetches.Add(1)
	doc, err := d.read(ctx, reader)
	return d.judge(result{doc, inTime("fetch", d.id.key, err)})
}

// inTime gives an answer that did not come before its deadline its reason.
func inTime(op string, key policy.Key, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && store.ReasonOf(err) == "" {
		return &store.Error{Reason: v1alpha1.ReasonStoreTimeout, Op: op, Key: string(key), Err: errors.New("no answer in time")}
	}
	return err
}

// read fetches the document, or polls it where the store can do that and a version
// is known whose content is not asked for.
func (d *feed) read(ctx context.Context, reader store.Reader) (*store.Document, error) {
	if poller, ok := reader.(store.Poller); ok {
		if last := d.known(); last != nil {
			return poller.Poll(ctx, d.id.key, last)
		}
	}
	return reader.Fetch(ctx, d.id.key)
}

// follow watches on from a settled result while the store can be watched, and
// answers the first that is not settled, or the last when a fetch is wanted or
// the context ended.
func (d *feed) follow(ctx context.Context, got result) result {
	reader, err := d.source.get()
	if err != nil {
		return got
	}
	watcher, ok := reader.(store.Watcher)
	if !ok || d.source.isCrowded() {
		return got
	}
	pace := rate.NewLimiter(rate.Every(changePause), changeBurst)
	for got.settled() {
		if sleep(ctx, pace.Reserve().Delay()) != nil {
			return got
		}
		next, ended := d.watch(ctx, watcher, got.version())
		switch {
		case ctx.Err() != nil || d.isWanted():
			return got
		case errors.Is(next.err, store.ErrNotWatched):
			d.source.setCrowded()
			return got
		case !ended: // hushed: goes on when the source may
			continue
		}
		d.publish(next)
		got = next.bare()
	}
	return got
}

// watch watches once, when the source lets it; false when it was interrupted.
func (d *feed) watch(ctx context.Context, watcher store.Watcher, after string) (result, bool) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	if !d.interruptible(cancel) {
		return result{}, false
	}
	defer d.uninterruptible()
	done := func(error) {} // a multiplexer's requests are let pass by itself
	if _, ok := watcher.(store.Multiplexer); !ok {
		var err error
		if done, err = d.source.Admit(own); err != nil {
			return result{}, false
		}
	}
	d.owner.watches.Add(1)
	doc, err := watcher.Watch(own, d.id.key, after)
	if own.Err() != nil {
		err = own.Err()
	}
	done(err)
	return d.judge(result{doc, err}), own.Err() == nil
}

// judge counts what failed.
func (d *feed) judge(got result) result {
	if !got.settled() && !errors.Is(got.err, context.Canceled) && !errors.Is(got.err, store.ErrNotWatched) {
		d.owner.failures.Add(1)
	}
	return got
}

// rest waits until the plan's next fetch is due or one is wanted. While the store is
// down, what failed with it queues at once, to be its next probes, as rarely as it is
// probed.
func (d *feed) rest(ctx context.Context, next plan) {
	for !d.isWanted() && !d.failsWithItsStore() {
		wait := time.Until(next.next(d.currentInterval()))
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.nudge:
		case <-timer.C:
		}
		timer.Stop()
	}
}
