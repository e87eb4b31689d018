package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// batching answers all fetches that wait with one request, which takes a while.
type batching struct {
	*memory.Store

	takes time.Duration

	// mu guards what follows.
	mu       sync.Mutex
	gate     store.Gate
	waiting  chan struct{} // closed when the next request is answered
	requests int
}

func (b *batching) Through(gate store.Gate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = gate
}

func (b *batching) state() (gate store.Gate, requests int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gate, b.requests
}

func (b *batching) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	b.mu.Lock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
		go b.request(ctx, b.waiting)
	}
	answered := b.waiting
	b.mu.Unlock()
	<-answered
	return b.Store.Fetch(ctx, key)
}

func (b *batching) request(ctx context.Context, answered chan struct{}) {
	defer close(answered)
	gate, _ := b.state()
	done, err := gate.Enter(ctx)
	if err != nil {
		return
	}
	<-time.After(b.takes) // by the clock of the bubble
	done(b.Probe(ctx))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	b.waiting = nil
}

func TestMultiplexer_CallsAreNotLimitedButRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const documents = 1000
		s := &batching{Store: memory.New(), takes: time.Minute}
		source := feed.Source{
			ID: "class", Limits: feed.Limits{RequestsPerSecond: 1, Burst: 1, Concurrency: 1},
			Open: func() (store.Reader, error) { return s, nil },
		}
		f := start(t)
		for n := range documents {
			s.Put(policy.Key(fmt.Sprint(n)), "one")
			f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Hour)
		}
		// A minute is longer than a fetch may take that the feed bounds.
		pass(3 * time.Minute)
		for n := range documents {
			if got := f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Hour); text(got) != "one" || got.Err != nil {
				t.Fatalf("document %d: %q, %v", n, text(got), got.Err)
			}
		}
		if _, n := s.state(); n > 2 {
			t.Errorf("%d requests for %d documents at once", n, documents)
		}
		// All of them are watched by now, though the class has one request a second.
		if got := f.Stats(); got.Watches != documents {
			t.Errorf("%d of %d documents are watched", got.Watches, documents)
		}
		f.stop()
		if got := f.Stats(); got.Fetches != documents {
			t.Errorf("%d fetches, want none more at the end", got.Fetches)
		}
	})
}

func TestMultiplexer_TheGateHoldsTheClassToItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &batching{Store: memory.New()}
		s.Put(key, "one")
		source := feed.Source{
			ID: "class", Limits: feed.Limits{RequestsPerSecond: 2, Burst: 1, Concurrency: 1},
			Open: func() (store.Reader, error) { return s, nil },
		}
		f := start(t)
		f.Subscribe(sub(1), source, key, time.Hour)
		pass(time.Minute)
		spent := func(pass func(context.Context) (store.Done, error)) (store.Done, time.Duration) {
			began := time.Now()
			done, err := pass(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return done, time.Since(began)
		}
		gate, _ := s.state()
		first, _ := spent(gate.Admit)
		if _, took := spent(gate.Admit); took != 500*time.Millisecond {
			t.Errorf("admitted after %s at two a second", took)
		}
		first(&store.Error{Reason: v1alpha1.ReasonStoreThrottled, RetryAfter: time.Minute, Err: errors.New("429")})
		placed, took := spent(gate.Enter)
		if took != time.Minute {
			t.Errorf("entered after %s, want the quiet of a minute kept", took)
		}
		full, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := gate.Enter(full); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want no second place", err)
		}
		placed(nil)
		placed, _ = spent(gate.Enter)
		placed(nil)
		f.stop()
	})
}

func TestMultiplexer_AnErrorOfItsOwnIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &batching{Store: memory.New()}
		s.Fail(failing(v1alpha1.ReasonStoreUnreachable))
		source := feed.Source{ID: "class", Open: func() (store.Reader, error) { return s, nil }}
		f := start(t)
		f.Subscribe(sub(1), source, key, time.Minute)
		synctest.Wait()
		if got := f.Subscribe(sub(1), source, key, time.Minute); store.ReasonOf(got.Err) != v1alpha1.ReasonStoreUnreachable {
			t.Errorf("got %v", got.Err)
		}
		s.Put(key, "one")
		s.Fail(nil)
		pass(2 * time.Minute)
		if got := f.Subscribe(sub(1), source, key, time.Minute); text(got) != "one" || got.Err != nil {
			t.Errorf("document %q, error %v", text(got), got.Err)
		}
		f.stop()
	})
}

func TestMultiplexer_AnOutageCostsAHandfulOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const documents = 300
		s := &batching{Store: memory.New(), takes: time.Second}
		source := feed.Source{ID: "class", Open: func() (store.Reader, error) { return s, nil }}
		f := start(t)
		look := func(n int) feed.Snapshot {
			return f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), 15*time.Second)
		}
		for n := range documents {
			s.Put(policy.Key(fmt.Sprint(n)), "one")
			look(n)
		}
		pass(time.Minute)
		s.Fail(failing(v1alpha1.ReasonStoreUnreachable))
		_, before := s.state()
		pass(10 * time.Minute)
		if _, after := s.state(); after-before > 10*8 || after == before {
			t.Errorf("%d requests in ten minutes of outage", after-before)
		}
		for n := range documents {
			s.Put(policy.Key(fmt.Sprint(n)), "two")
			f.Refresh(sub(n), "now")
			if got := look(n); text(got) != "one" || store.ReasonOf(got.Err) != v1alpha1.ReasonStoreUnreachable {
				t.Fatalf("document %d: %q, %v; want the last good one and why there is no newer", n, text(got), got.Err)
			}
		}
		s.Fail(nil)
		pass(30 * time.Second)
		for n := range documents {
			if got := look(n); text(got) != "two" || got.Err != nil {
				t.Errorf("document %d: %q, %v", n, text(got), got.Err)
			}
		}
		f.stop()
	})
}
