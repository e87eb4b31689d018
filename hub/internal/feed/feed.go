package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/internal/tracing"
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
	asked  request       // the latest; the goroutine's own

	// Guarded by owner.mu:
	subscribers map[Subscriber]time.Duration
	interval    time.Duration // the shortest of the subscribers
	doc         *Document
	err         error
	wanted      bool               // a fetch was asked for
	released    bool               // nobody subscribes any more
	cancel      context.CancelFunc // ends the goroutine; nil before it began
	interrupt   context.CancelFunc // ends the watch under way; nil without one
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
	for {
		got := d.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		d.publish(ctx, got)
		if got.settled() {
			got = d.follow(ctx, got)
		}
		next = next.after(got, time.Now())
		d.rest(ctx, next)
	}
}

// fetch makes one request, when the source lets it.
func (d *feed) fetch(ctx context.Context) result {
	reader, err := d.source.get()
	if err != nil {
		d.heard()
		return d.judge(result{err: err})
	}
	bounded, end, err := d.source.begin(ctx, reader)
	if err != nil {
		return result{err: err}
	}
	defer end()
	d.heard()
	d.owner.fetches.Add(1)
	doc, err := d.read(bounded, reader)
	if errors.Is(err, context.DeadlineExceeded) && store.ReasonOf(err) == "" {
		err = &store.Error{
			Reason: v1alpha1.ReasonStoreTimeout, Op: "fetch", Key: string(d.id.key),
			Err: errors.New("no answer in time"),
		}
	}
	return d.judge(result{doc, err})
}

// read fetches the document, or polls it where the store can do that and a version
// is held.
func (d *feed) read(ctx context.Context, reader store.Reader) (*store.Document, error) {
	d.asked = request{op: tracing.StoreFetch, at: time.Now()}
	defer func() { d.owner.observer.Fetched(d.id.source.id, time.Since(d.asked.at)) }()
	if poller, ok := reader.(store.Poller); ok {
		if last := d.held(); last != nil {
			d.asked.op = tracing.StorePoll
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
		if sleep(ctx, pace.Reserve().Delay()) != nil || d.source.beginWatch(ctx, watcher) != nil {
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
		got = next
		d.publish(ctx, got)
	}
	return got
}

// watch watches once; false when it was interrupted.
func (d *feed) watch(ctx context.Context, watcher store.Watcher, after string) (result, bool) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	if !d.interruptible(cancel) {
		return result{}, false
	}
	defer d.uninterruptible()
	d.owner.watches.Add(1)
	doc, err := watcher.Watch(own, d.id.key, after)
	d.asked = request{op: tracing.StoreWatch, at: time.Now()}
	if own.Err() != nil {
		return result{}, false
	}
	return d.judge(result{doc, err}), true
}

// judge notes what a result means for the whole source.
func (d *feed) judge(got result) result {
	d.observe(got.err)
	if got.settled() || errors.Is(got.err, context.Canceled) || errors.Is(got.err, store.ErrNotWatched) {
		return got
	}
	d.owner.failures.Add(1)
	if failure, ok := errors.AsType[*store.Error](got.err); ok && failure.RetryAfter > 0 {
		d.owner.hush(d.source, time.Now().Add(failure.RetryAfter))
	}
	return got
}

// rest waits until the plan's next fetch is due or one is wanted.
func (d *feed) rest(ctx context.Context, next plan) {
	for !d.isWanted() {
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

// publish keeps the result and wakes the subscribers when it is news to them.
func (d *feed) publish(ctx context.Context, got result) {
	change := d.changeTo(ctx, got)
	for _, sub := range d.keep(got) {
		d.owner.tell(sub, change)
	}
}

// keep answers whom to wake.
func (d *feed) keep(got result) []Subscriber {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	news := !sameError(d.err, got.err)
	d.err = got.err
	if got.err == nil && (d.doc == nil || d.doc.Version != got.doc.Version) {
		d.doc = &Document{Document: got.doc}
		news = true
	}
	if !news || d.released {
		return nil
	}
	return slices.Collect(maps.Keys(d.subscribers))
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return store.ReasonOf(a) == store.ReasonOf(b) && a.Error() == b.Error()
}
