package mux

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// fake answers requests as Consul does, in memory, and counts them.
type fake struct {
	latency            time.Duration
	noLists, noBatches bool
	batchBytes         int   // larger answers are too large; no bound when zero
	gets, lists, waits int   // waits are for a key alone
	batches            []int // how many keys each had
	blocking, most     int   // blocking queries under way

	mu sync.Mutex
	content
	behind    *content // what a query that waits sees; the same when nil
	partition bool     // and whether that is known
	forbidden map[policy.Key]bool
	failure   error
	changed   chan struct{}
}

// content is what a server holds.
type content struct {
	index   uint64
	docs    map[policy.Key]*store.Document
	deleted map[policy.Key]uint64
}

func newFake() *fake {
	return &fake{
		content:   content{10, map[policy.Key]*store.Document{}, map[policy.Key]uint64{}},
		forbidden: map[policy.Key]bool{}, changed: make(chan struct{}),
	}
}

// fallBehind has the queries that wait see the store as it is now, until catchUp.
func (f *fake) fallBehind(partition bool) {
	f.change(func() {
		f.behind = &content{f.index, maps.Clone(f.docs), maps.Clone(f.deleted)}
		f.partition = partition
	})
}

func (f *fake) catchUp() { f.change(func() { f.behind, f.partition = nil, false }) }

// change does something to the store and wakes the blocking queries.
func (f *fake) change(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) put(key policy.Key, text string) {
	f.change(func() {
		f.index++
		delete(f.deleted, key)
		f.docs[key] = &store.Document{Version: strconv.FormatUint(f.index, 10), Text: []byte(text)}
	})
}

func (f *fake) remove(key policy.Key) {
	f.change(func() {
		if f.docs[key] != nil {
			f.index++
			f.deleted[key] = f.index
			delete(f.docs, key)
		}
	})
}

// restore is a snapshot of long ago: the index starts low, every document changed.
func (f *fake) restore() {
	f.change(func() {
		f.index = 10
		clear(f.deleted)
		for key, doc := range f.docs {
			f.index++
			f.docs[key] = &store.Document{Version: strconv.FormatUint(f.index, 10), Text: doc.Text}
		}
	})
}

// forget is what Consul does with deletions after a quarter of an hour.
func (f *fake) forget() { f.change(func() { clear(f.deleted) }) }

func (f *fake) fail(err error) { f.change(func() { f.failure = err }) }

func (f *fake) forbid(key policy.Key, forbidden bool) {
	f.change(func() { f.forbidden[key] = forbidden })
}

// version is what a follower should know: the reason of an error, or the version.
func (f *fake) version(key policy.Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return outcome(f.look(key))
}

func outcome(r Reading) string {
	if r.Err != nil {
		return store.ReasonOf(r.Err)
	}
	return r.version()
}

// look is called with mu held.
func (f *fake) look(key policy.Key) Reading {
	doc := f.docs[key]
	switch {
	case f.failure != nil:
		return Reading{Err: f.failure}
	case f.forbidden[key]:
		return Reading{Err: &store.Error{Reason: v1alpha1.ReasonKeyForbidden, Err: errors.New("forbidden")}}
	case doc == nil:
		return Reading{Err: &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errors.New("absent")}, Index: f.index}
	}
	return Reading{Doc: doc, Index: indexOf(doc.Version)}
}

// at is the index of what a query is about.
func (c *content) at(q Query) uint64 {
	about := func(key policy.Key) bool {
		return string(key) == q.Prefix || !q.Exact && strings.HasPrefix(string(key), q.Prefix)
	}
	var index uint64
	for key, doc := range c.docs {
		if about(key) {
			index = max(index, indexOf(doc.Version))
		}
	}
	for key, at := range c.deleted {
		if about(key) {
			index = max(index, at)
		}
	}
	if index == 0 {
		return c.index
	}
	return index
}

// Get is part of Requests.
func (f *fake) Get(ctx context.Context, key policy.Key) (got Reading) {
	f.count(func() { f.gets++ })
	err := f.block(ctx, 0, func() (uint64, error) {
		got = f.look(key)
		return got.Index, nil
	})
	if ctx.Err() != nil {
		return Reading{Err: err}
	}
	return got
}

// Index is part of Requests.
func (f *fake) Index(ctx context.Context, q Query) (at uint64, err error) {
	f.count(func() {
		if q.Exact {
			f.waits++
		} else {
			f.lists++
		}
	})
	err = f.block(ctx, q.After, func() (uint64, error) {
		switch {
		case f.failure != nil:
			return 0, f.failure
		case f.noLists && !q.Exact:
			return 0, ErrRefused
		case q.Exact && f.forbidden[policy.Key(q.Prefix)]:
			return 0, f.look(policy.Key(q.Prefix)).Err
		}
		seen := &f.content
		if f.behind != nil && q.After > 0 {
			seen = f.behind
		}
		at = seen.at(q)
		return at, nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && q.After > 0 && (at < q.After || f.partition) {
		return 0, ErrLags
	}
	return at, err
}

// Read is part of Requests.
func (f *fake) Read(ctx context.Context, keys []policy.Key) (readings []Reading, err error) {
	f.count(func() { f.batches = append(f.batches, len(keys)) })
	err = f.block(ctx, 0, func() (uint64, error) {
		bytes, index := 0, uint64(0)
		for _, key := range keys {
			got := f.look(key)
			if got.Doc != nil {
				bytes += len(got.Doc.Text)
				index = max(index, got.Index)
			}
			readings = append(readings, got)
		}
		for n := range readings {
			if readings[n].settled() {
				readings[n].Index = index
			}
		}
		switch {
		case f.failure != nil:
			return 0, f.failure
		case f.noBatches:
			return 0, ErrRefused
		case f.batchBytes > 0 && bytes > f.batchBytes:
			return 0, ErrTooLarge
		}
		return 0, nil
	})
	return readings, err
}

func (f *fake) count(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
}

// block evaluates until the index is beyond the one given, or time is up.
func (f *fake) block(ctx context.Context, index uint64, evaluate func() (uint64, error)) error {
	if err := sleep(ctx, f.latency); err != nil {
		return err
	}
	f.count(func() { f.blocking++; f.most = max(f.most, f.blocking) })
	defer f.count(func() { f.blocking-- })
	timeout := time.NewTimer(50 * time.Second)
	defer timeout.Stop()
	for expired := index == 0; ; {
		f.mu.Lock()
		at, err := evaluate()
		changed := f.changed
		f.mu.Unlock()
		if err != nil || at > index || expired || at < index && index > f.index {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			expired = true
		case <-changed:
		}
	}
}

// open is a gate that lets everything pass and notes how long the store wants quiet.
type open struct{ hushed chan time.Duration }

func (g open) Admit(context.Context) (store.Done, error) { return g.done, nil }
func (g open) Enter(context.Context) (store.Done, error) { return g.done, nil }

func (g open) done(err error) {
	if failure, ok := errors.AsType[*store.Error](err); ok && failure.RetryAfter > 0 {
		g.hushed <- failure.RetryAfter
	}
}

// rig is a Mux and followers of some keys, in a bubble of its own.
type rig struct {
	*fake

	mux  *Mux
	gate open
	lag  time.Duration // of some followers: before they begin, and between two calls
	mu   sync.Mutex
	seen map[policy.Key]string
}

func startRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{fake: newFake(), gate: open{make(chan time.Duration, 1)}, seen: map[policy.Key]string{}}
	r.mux = New(r.fake, r.gate)
	return r
}

// follow follows a key as package feed does until the context ends.
func (r *rig) follow(ctx context.Context, key policy.Key) {
	lag := r.lag * time.Duration(key[len(key)-1]%4) // differs among neighbours
	_ = sleep(ctx, 5*lag)
	fetch := func() Reading { return r.mux.Fetch(ctx, key) }
	for ask := fetch; ctx.Err() == nil; {
		got := ask()
		if ctx.Err() != nil {
			return
		}
		refused := errors.Is(got.Err, store.ErrNotWatched)
		if !refused {
			r.mu.Lock()
			r.seen[key] = outcome(got)
			r.mu.Unlock()
		}
		_ = sleep(ctx, lag)
		ask = func() Reading { return r.mux.Watch(ctx, key, got.version()) }
		if !got.settled() {
			_ = sleep(ctx, 15*time.Second)
			ask = fetch
		}
	}
}

// during follows keys while the test does something, and closes the Mux.
func (r *rig) during(t *testing.T, keys []policy.Key, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var followers sync.WaitGroup
	for _, key := range keys {
		followers.Go(func() { r.follow(ctx, key) })
	}
	do()
	cancel()
	followers.Wait()
	r.mux.Close()
}

func (r *rig) knows(key policy.Key) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[key]
}

// stale counts the keys whose follower does not know what is in the store.
func (r *rig) stale(keys []policy.Key) int {
	stale := 0
	for _, key := range keys {
		if r.knows(key) != r.version(key) {
			stale++
		}
	}
	return stale
}

// requests counts all of them.
func (r *rig) requests() int {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	return r.gets + r.lists + r.waits + len(r.batches)
}

// counts answers how many lists were asked for, and the sizes of the batches.
func (r *rig) counts() (lists int, batches []int) {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	return r.lists, slices.Clone(r.batches)
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
