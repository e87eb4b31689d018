package feed_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// ordered is a polled store that notes which documents it is asked for, in order.
type ordered struct {
	store.Reader

	mu    sync.Mutex
	asked []policy.Key
}

func (s *ordered) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	s.mu.Lock()
	s.asked = append(s.asked, key)
	s.mu.Unlock()
	return s.Reader.Fetch(ctx, key)
}

// since answers which request the first of a key is after so many; zero for none.
func (s *ordered) since(before int, key policy.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Index(s.asked[before:], key) + 1
}

func (s *ordered) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// busy is a class of ten requests a second with a thousand documents that are all
// due every second, once it has fetched each of them.
func busy(t *testing.T) (*fixture, *ordered, feed.Source) {
	t.Helper()
	const documents = 1000
	stored := memory.New()
	s := &ordered{Reader: polled{stored}}
	source := feed.Source{
		ID: "class", Limits: feed.Limits{RequestsPerSecond: 10, Burst: 1},
		Open: func() (store.Reader, error) { return s, nil },
	}
	f := start(t)
	for n := range documents {
		k := policy.Key(fmt.Sprint(n))
		stored.Put(k, "one")
		f.Subscribe(sub(n), source, k, time.Second)
	}
	stored.Put("new", "one")
	pass(documents/10*time.Second + 10*time.Second)
	synctest.Wait()
	return f, s, source
}

func TestPriority_WhatNobodyHasYetIsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s, source := busy(t)
		before := s.count()
		f.Subscribe(sub(1000), source, "new", time.Second)
		pass(time.Second)
		if n := s.since(before, "new"); n != 1 {
			t.Errorf("it is request number %d, with a thousand documents due", n)
		}
		f.stop()
	})
}

func TestPriority_WhatIsAskedForIsBeforeWhatIsPeriodic(t *testing.T) {
	t.Parallel()
	cases := map[string]func(f *fixture, source feed.Source){
		"by a refresh of a document that waits already": func(f *fixture, _ feed.Source) { f.Refresh(sub(7), "now") },
		"by a subscriber that came to one that waits": func(f *fixture, source feed.Source) {
			f.Subscribe(sub(2000), source, "7", time.Second)
		},
		"by a subscriber that changed": func(f *fixture, source feed.Source) {
			f.Subscribe(sub(7), source, "7", 2*time.Second)
		},
	}
	for name, ask := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, s, source := busy(t)
				before := s.count()
				ask(f, source)
				f.Subscribe(sub(1000), source, "new", time.Second)
				pass(time.Second)
				if first, second := s.since(before, "new"), s.since(before, "7"); first != 1 || second != 2 {
					t.Errorf("the new document is request number %d and the one asked for number %d, want 1 and 2", first, second)
				}
				f.stop()
			})
		})
	}
}

func TestPriority_TheSameAreServedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := busy(t)
		before := s.count()
		pass(100 * time.Second)
		seen := map[policy.Key]bool{}
		s.mu.Lock()
		for _, k := range s.asked[before:] {
			seen[k] = true
		}
		s.mu.Unlock()
		if len(seen) < 990 {
			t.Errorf("%d of a thousand documents had their turn in a thousand requests", len(seen))
		}
		f.stop()
	})
}

// A watch that waits for its turn does not hold up who asks for its document.
func TestPriority_ARefreshEndsTheWaitForAWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		source := watched(s)
		source.Limits = feed.Limits{RequestsPerSecond: 1, Burst: 1}
		f := start(t)
		f.Subscribe(sub(0), source, key, time.Hour)
		synctest.Wait()
		for n := range 100 { // all of them before the watch of the first
			f.Subscribe(sub(n+1), source, policy.Key(fmt.Sprint(n)), time.Hour)
		}
		pass(10 * time.Second)
		f.Refresh(sub(0), "now")
		pass(100 * time.Second)
		if n := s.Fetches(key); n != 2 {
			t.Errorf("%d fetches, want the one that was asked for too", n)
		}
		f.stop()
	})
}

// Who asks faster than the class's rate allows, for what is there or for what is new,
// keeps nobody's documents from being fetched.
func TestPriority_WhatIsPeriodicGoesOnUnderAFlood(t *testing.T) {
	t.Parallel()
	const periodic, flooding, seconds = 10, 40, 100
	cases := map[string]func(f *fixture, source feed.Source, n, second int){
		"of refreshes": func(f *fixture, source feed.Source, n, second int) {
			f.Subscribe(sub(periodic+n), source, policy.Key(fmt.Sprint("asked-", n)), time.Hour)
			f.Refresh(sub(periodic+n), fmt.Sprint(second))
		},
		"of new keys": func(f *fixture, source feed.Source, n, second int) {
			f.Subscribe(sub(periodic+n), source, policy.Key(fmt.Sprint("new-", n, "-", second)), time.Hour)
		},
	}
	for name, ask := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &ordered{Reader: polled{memory.New()}}
				source := feed.Source{
					ID: "class", Limits: feed.Limits{RequestsPerSecond: 10, Burst: 1},
					Open: func() (store.Reader, error) { return s, nil },
				}
				f := start(t)
				for n := range periodic {
					f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), 5*time.Second)
				}
				pass(10 * time.Second)
				before := s.count()
				for second := range seconds {
					for n := range flooding {
						ask(f, source, n, second)
					}
					pass(time.Second)
				}
				fetched := map[policy.Key]int{}
				s.mu.Lock()
				for _, k := range s.asked[before:] {
					fetched[k]++
				}
				s.mu.Unlock()
				for n := range periodic {
					// A fifth of ten a second, in turns, after its interval of five.
					if k := policy.Key(fmt.Sprint(n)); fetched[k] < seconds/20 {
						t.Errorf("document %s was fetched %d times in %d s", k, fetched[k], seconds)
					}
				}
				if all := s.count() - before; all < 9*seconds {
					t.Errorf("%d requests in %d s, want the rate used", all, seconds)
				}
				f.stop()
			})
		})
	}
}
