package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

func TestSource_RateHoldsForAllDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		source := unwatched(s)
		source.Limits = feed.Limits{RequestsPerSecond: 10, Burst: 20}
		f := start(t)
		for n := range 1000 {
			f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Second)
		}
		pass(time.Minute)
		if n := f.Stats().Fetches; n > 621 || n < 600 {
			t.Errorf("%d fetches in a minute at 10 a second and a burst of 20", n)
		}
		f.stop()
	})
}

// slow is a store that takes its time, and tells how many are inside.
type slow struct {
	store.Reader

	takes        time.Duration
	inside, most atomic.Int64
}

func (s *slow) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	s.most.Store(max(s.most.Load(), s.inside.Add(1)))
	defer s.inside.Add(-1)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
		return s.Reader.Fetch(ctx, key)
	}
}

func TestSource_ASlowOneDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := &slow{Reader: memory.New(), takes: time.Hour}
		s := memory.New()
		s.Put(key, "one")
		f := start(t)
		stuck := feed.Source{
			ID: "stuck", Limits: feed.Limits{Concurrency: 3},
			Open: func() (store.Reader, error) { return hanging, nil },
		}
		for n := range 100 {
			f.Subscribe(sub(n), stuck, policy.Key(fmt.Sprint(n)), 0)
		}
		f.Subscribe(sub(100), watched(s), key, 0)
		if f.wakes(sub(100)) != 1 {
			t.Error("a document waits for another source")
		}
		if n := hanging.most.Load(); n != 3 {
			t.Errorf("%d fetches at once, want 3", n)
		}
		pass(31 * time.Second)
		timeouts := 0
		for n := range 100 {
			if store.ReasonOf(f.Subscribe(sub(n), stuck, policy.Key(fmt.Sprint(n)), 0).Err) == v1alpha1.ReasonStoreTimeout {
				timeouts++
			}
		}
		if timeouts != 3 {
			t.Errorf("%d documents timed out after 30 s, want the 3 that were asked for", timeouts)
		}
		f.stop()
	})
}

func TestSource_RetryAfterSilencesTheWholeClass(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*memory.Store) feed.Source{"watched": watched, "polled": unwatched} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				f := start(t)
				for n := range 20 {
					k := policy.Key(fmt.Sprint(n))
					s.Put(k, "one")
					f.Subscribe(sub(n), source(s), k, time.Second)
				}
				synctest.Wait()
				s.Fail(&store.Error{Reason: v1alpha1.ReasonStoreThrottled, Op: "fetch", RetryAfter: time.Minute, Err: errors.New("429")})
				f.Refresh(sub(0), "now")
				synctest.Wait()
				pass(time.Second) // those already admitted get their answer
				s.Fail(nil)
				before := f.Stats()
				pass(58 * time.Second)
				f.Refresh(sub(1), "now")
				synctest.Wait()
				if after := f.Stats(); after.Fetches != before.Fetches || after.Watches != before.Watches {
					t.Errorf("%d fetches and %d watches while the store asked for quiet",
						after.Fetches-before.Fetches, after.Watches-before.Watches)
				}
				pass(30 * time.Second)
				for n := range 20 {
					k := policy.Key(fmt.Sprint(n))
					if got := f.Subscribe(sub(n), source(s), k, time.Second); text(got) != "one" || got.Err != nil {
						t.Errorf("document %d: %q, %v after the quiet", n, text(got), got.Err)
					}
				}
				f.stop()
			})
		})
	}
}

func TestSource_OpenIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		var healed atomic.Bool
		source := feed.Source{ID: "class", Open: func() (store.Reader, error) {
			if !healed.Load() {
				return nil, failing(v1alpha1.ReasonStoreTLSFailed)
			}
			return s, nil
		}}
		f := start(t)
		f.Subscribe(sub(1), source, key, 0)
		synctest.Wait()
		if got := f.Subscribe(sub(1), source, key, 0); store.ReasonOf(got.Err) != v1alpha1.ReasonStoreTLSFailed {
			t.Errorf("error %v", got.Err)
		}
		healed.Store(true)
		pass(30 * time.Second)
		if got := f.Subscribe(sub(1), source, key, 0); text(got) != "one" || got.Err != nil {
			t.Errorf("document %q, error %v", text(got), got.Err)
		}
		f.stop()
	})
}

// crowded is a store with room for a few watches.
type crowded struct {
	*memory.Store

	room chan struct{}
}

func (s *crowded) Watch(ctx context.Context, key policy.Key, after string) (*store.Document, error) {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
		return s.Store.Watch(ctx, key, after)
	default:
		return nil, store.ErrNotWatched
	}
}

func TestSource_WhatCannotBeWatchedIsPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const documents, room = 10, 3
		s := &crowded{Store: memory.New(), room: make(chan struct{}, room)}
		source := feed.Source{ID: "class", Open: func() (store.Reader, error) { return s, nil }}
		key := func(n int) policy.Key { return policy.Key(fmt.Sprint(n)) }
		f := start(t)
		for n := range documents {
			s.Put(key(n), "one")
			f.Subscribe(sub(n), source, key(n), 15*time.Second)
		}
		pass(time.Hour)
		once := 0
		for n := range documents {
			switch fetches := s.Fetches(key(n)); {
			case fetches == 1:
				once++
			case fetches < 200 || fetches > 245:
				t.Errorf("%d fetches of a polled document in an hour, want about 240", fetches)
			}
			s.Put(key(n), "two")
		}
		if once != room {
			t.Errorf("%d documents are watched, want %d", once, room)
		}
		pass(20 * time.Second)
		for n := range documents {
			if got := f.Subscribe(sub(n), source, key(n), 15*time.Second); text(got) != "two" || got.Err != nil {
				t.Errorf("document %d: %q, %v", n, text(got), got.Err)
			}
		}
		if got := f.Stats().Failures; got != 0 {
			t.Errorf("%d failures counted", got)
		}
		f.stop()
	})
}

// throttling answers one key with a Retry-After and tells who is inside Watch.
type throttling struct {
	*memory.Store

	inside atomic.Int64
}

func (s *throttling) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	doc, err := s.Store.Fetch(ctx, key)
	if key == "throttled" {
		return nil, &store.Error{Reason: v1alpha1.ReasonStoreThrottled, RetryAfter: time.Minute, Err: errors.New("429")}
	}
	return doc, err
}

func (s *throttling) Watch(ctx context.Context, key policy.Key, after string) (*store.Document, error) {
	s.inside.Add(1)
	defer s.inside.Add(-1)
	return s.Store.Watch(ctx, key, after)
}

func TestSource_RetryAfterHoldsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &throttling{Store: memory.New()}
		source := feed.Source{
			ID: "class", Limits: feed.Limits{RequestsPerSecond: 1, Burst: 1},
			Open: func() (store.Reader, error) { return s, nil },
		}
		f := start(t)
		s.Put("watched", "one")
		f.Subscribe(sub(0), source, "watched", time.Hour)
		pass(10 * time.Second)
		if n := s.inside.Load(); n != 1 {
			t.Fatalf("%d watches under way, want 1", n)
		}
		f.Subscribe(sub(1), source, "throttled", time.Hour)
		synctest.Wait()
		for n := range 5 { // these wait for their turn when the store asks for quiet
			f.Subscribe(sub(2+n), source, policy.Key(fmt.Sprint(n)), time.Hour)
		}
		pass(50 * time.Second)
		if got := f.Stats().Fetches; got != 2 || s.inside.Load() != 0 {
			t.Errorf("%d fetches and %d watches under way in the quiet, want 2 and none", got, s.inside.Load())
		}
		pass(time.Minute)
		if got := f.Stats().Fetches; got != 7 || s.inside.Load() != 6 {
			t.Errorf("%d fetches and %d watches under way after the quiet, want 7 and 6", got, s.inside.Load())
		}
		f.stop()
	})
}

func TestSource_RetryAfterHoldsForThoseInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Fail(&store.Error{Reason: v1alpha1.ReasonStoreThrottled, RetryAfter: time.Minute, Err: errors.New("429")})
		// The answer takes long enough for others to have entered the queue.
		answers := &slow{Reader: s, takes: 500 * time.Millisecond}
		source := feed.Source{
			ID: "class", Limits: feed.Limits{RequestsPerSecond: 1, Burst: 1},
			Open: func() (store.Reader, error) { return answers, nil },
		}
		f := feed.New(feed.Config{Wake: func(feed.Subscriber) {}})
		for n := range 50 {
			f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Hour)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		pass(59 * time.Second)
		if got := f.Stats().Fetches; got != 1 {
			t.Errorf("%d fetches within the quiet that the first one brought", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
