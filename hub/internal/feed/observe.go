package feed

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"

	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/internal/tracing"
)

// Observer is told what is asked of stores. Its methods must not block.
type Observer interface {
	// Answered says how a fetch or a watch on behalf of a class ended.
	Answered(class string, err error)
	// Fetched says how long a fetch took.
	Fetched(class string, took time.Duration)
}

// unobserved is the Observer of who names none.
type unobserved struct{}

func (unobserved) Answered(string, error)        {}
func (unobserved) Fetched(string, time.Duration) {}

// Change is the news of a version of a document.
type Change struct {
	// At is when it was learned.
	At time.Time
	// Span in which it was; not valid when it is not traced.
	Span trace.SpanContext
}

// inquiry is what was asked of a store last: when it was sent, or for a watch, which
// lasts as long as nothing happens, when it was answered.
type inquiry struct {
	op string
	at time.Time
}

// observe tells the observer of an answer. A request that was given up has none.
func (d *feed) observe(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotWatched) {
		return
	}
	d.owner.observer.Answered(d.id.source.id, err)
}

// changeTo begins the trace of a result that is a new version; nil for any other.
func (d *feed) changeTo(ctx context.Context, got result) *Change {
	if got.err != nil || !d.isNew(got.doc) {
		return nil
	}
	_, span := tracing.Start(ctx, d.asked.op, tracing.About{Class: d.id.source.id, Key: string(d.id.key)},
		trace.WithTimestamp(d.asked.at), trace.WithNewRoot())
	span.End()
	return &Change{At: time.Now(), Span: span.SpanContext()}
}

// isNew says whether a version is another than the last.
func (d *feed) isNew(doc *store.Document) bool {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	return d.last == nil || d.last.Version != doc.Version
}

// tell wakes a subscriber, for a change or, where that is nil, for other news.
func (f *Feeds) tell(sub Subscriber, change *Change) {
	if change != nil {
		f.note(sub, *change)
	}
	f.wake(sub)
}

// note keeps a change for who did not leave meanwhile.
func (f *Feeds) note(sub Subscriber, change Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.clusters[sub.Cluster][sub]; ok {
		f.changes[sub] = change
	}
}

// TakeChange answers the change that a subscriber was woken for, once; zero when it was
// woken for something else.
func (f *Feeds) TakeChange(sub Subscriber) Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	change := f.changes[sub]
	delete(f.changes, sub)
	return change
}

// forgetChanges forgets those of a cluster; called with mu held.
func (f *Feeds) forgetChanges(cluster string) {
	for sub := range f.clusters[cluster] {
		delete(f.changes, sub)
	}
}
