package feed_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// requests counts what was sent.
func (f *fixture) requests() uint64 {
	synctest.Wait()
	stats := f.Stats()
	return stats.Fetches + stats.Watches
}

// A store is down for ten minutes, then up: at the class's rate 95 % of its documents
// are current within 30 s, and meanwhile the store is hardly asked, however many
// documents there are, and nobody loses theirs.
func TestOutage_OfTenMinutesIsOverWithinHalfAMinute(t *testing.T) {
	t.Parallel()
	sources := map[string]func(*memory.Store) feed.Source{"watched": watched, "polled": unwatched}
	for _, documents := range []int{30, 300} { // 300 are 15 s at the default rate
		for name, source := range sources {
			t.Run(fmt.Sprintf("%d documents that are %s", documents, name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					tenMinutesDown(t, documents, 15*time.Second, source)
				})
			})
		}
	}
	t.Run("documents that are watched at an interval of a day", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tenMinutesDown(t, 30, 24*time.Hour, watched)
		})
	})
}

func tenMinutesDown(t *testing.T, documents int, interval time.Duration, source func(*memory.Store) feed.Source) {
	t.Helper()
	s := memory.New()
	f := start(t)
	look := func(n int) feed.Snapshot {
		return f.Subscribe(sub(n), source(s), policy.Key(fmt.Sprint(n)), interval)
	}
	for n := range documents {
		s.Put(policy.Key(fmt.Sprint(n)), "one")
		look(n)
	}
	pass(time.Minute)
	s.Fail(failing(v1alpha1.ReasonStoreUnreachable))
	before := f.requests()
	pass(time.Minute)
	first := f.requests()
	pass(9 * time.Minute)
	after := f.requests()
	// Eight may be under way when the first fails, and the next are 1 s, 2 s, 4 s, 8 s apart.
	if first-before > 8+10 || after-first > 9*8 || after == first {
		t.Errorf("%d requests in the first minute and %d in nine more, want a handful a minute", first-before, after-first)
	}
	for n := range documents {
		if got := look(n); text(got) != "one" || store.ReasonOf(got.Err) != v1alpha1.ReasonStoreUnreachable {
			t.Fatalf("document %d: %q, %v; want the last good one and why there is no newer", n, text(got), got.Err)
		}
		if woken := f.wakes(sub(n)); woken > 2 { // at the start, and by the outage
			t.Errorf("document %d: woken %d times by one outage", n, woken)
		}
		s.Put(policy.Key(fmt.Sprint(n)), "two")
	}
	s.Fail(nil)
	pass(30 * time.Second)
	current := 0
	for n := range documents {
		if got := look(n); text(got) == "two" && got.Err == nil {
			current++
		}
	}
	t.Logf("%d requests in ten minutes, %d of %d documents current 30 s after", after-before, current, documents)
	if current < documents*95/100 {
		t.Errorf("%d of %d documents are current after 30 s", current, documents)
	}
	f.stop()
}

// unreachable is a class of many documents whose store is known to be down.
func unreachable(t *testing.T, s *memory.Store) (*fixture, feed.Source) {
	t.Helper()
	source := unwatched(s)
	s.Fail(failing(v1alpha1.ReasonStoreUnreachable))
	f := start(t)
	for n := range 100 {
		f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Hour)
	}
	pass(time.Minute) // the probes are seconds apart by now
	return f, source
}

func TestOutage_NobodyIsAskedAround(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		f, source := unreachable(t, s)
		before := f.requests()
		for n := range 60 {
			for i := range 100 {
				f.Refresh(sub(i), fmt.Sprint(n))
			}
			f.Subscribe(sub(1000+n), source, policy.Key(fmt.Sprint("new", n)), time.Second)
			synctest.Wait()
			fresh := f.Subscribe(sub(1000+n), source, policy.Key(fmt.Sprint("new", n)), time.Second)
			if store.ReasonOf(fresh.Err) != v1alpha1.ReasonStoreUnreachable {
				t.Fatalf("a new document knows %v, want at once why there is none", fresh.Err)
			}
			pass(time.Second)
		}
		if n := f.requests() - before; n > 7 || n == 0 {
			t.Errorf("%d requests in a minute of refreshes and new documents", n)
		}
		f.stop()
	})
}

// The error that others are told names their own document.
func TestOutage_TheErrorIsAboutTheDocumentItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		f, source := unreachable(t, s)
		for n := range 100 {
			k := policy.Key(fmt.Sprint(n))
			failure, ok := errors.AsType[*store.Error](f.Subscribe(sub(n), source, k, time.Hour).Err)
			// The store in memory says no key when it fails itself.
			if !ok || failure.Key != "" && failure.Key != string(k) {
				t.Errorf("document %s: %v", k, failure)
			}
		}
		f.stop()
	})
}

func TestOutage_WhatWaitedIsCurrentWithoutItsInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		f, source := unreachable(t, s)
		for n := range 100 {
			s.Put(policy.Key(fmt.Sprint(n)), "one")
		}
		s.Fail(nil)
		pass(20 * time.Second) // a probe, and a hundred documents at 20 a second
		for n := range 100 {
			if got := f.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Hour); text(got) != "one" || got.Err != nil {
				t.Errorf("document %d: %q, %v", n, text(got), got.Err)
			}
		}
		if got := f.Stats(); got.Down != 0 {
			t.Errorf("%d stores are down", got.Down)
		}
		f.stop()
	})
}

func TestOutage_CheckSaysWhyAndIsAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		f, source := unreachable(t, s)
		before := f.requests()
		for range 1000 {
			if err := f.Check(t.Context(), source); store.ReasonOf(err) != v1alpha1.ReasonStoreUnreachable {
				t.Fatalf("%v, want why the store is down", err)
			}
		}
		if n := f.requests() - before; n != 0 {
			t.Errorf("%d requests", n)
		}
		if got := f.Stats(); got.Down != 1 {
			t.Errorf("%d stores are down, want 1", got.Down)
		}
		f.stop()
	})
}

// Where no document is due, a check finds that the store is back.
func TestOutage_ACheckEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		source := watched(s)
		s.Fail(failing(v1alpha1.ReasonStoreSealed))
		f := start(t)
		f.Subscribe(sub(1), source, key, time.Hour)
		synctest.Wait()
		for range 5 {
			if err := f.Check(t.Context(), source); store.ReasonOf(err) != v1alpha1.ReasonStoreSealed {
				t.Fatal(err)
			}
		}
		s.Put(key, "one")
		s.Fail(nil)
		if err := f.Check(t.Context(), source); store.ReasonOf(err) != v1alpha1.ReasonStoreSealed {
			t.Errorf("%v, want no probe before its time", err)
		}
		pass(2 * time.Second)
		if err := f.Check(t.Context(), source); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := f.Subscribe(sub(1), source, key, time.Hour); text(got) != "one" || got.Err != nil {
			t.Errorf("document %q, error %v; want it fetched though its interval is not over", text(got), got.Err)
		}
		f.stop()
	})
}

func TestOutage_SaysWhenItBeginsAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, turns := memory.New(), 0
		f := start(t)
		f.OnTurn(func(id string) {
			if id != "class" {
				t.Errorf("source %q turned", id)
			}
			turns++
		})
		for n := range 10 {
			f.Subscribe(sub(n), unwatched(s), policy.Key(fmt.Sprint(n)), time.Second)
		}
		for want, err := range []error{nil, failing(v1alpha1.ReasonStoreUnreachable), nil} {
			s.Fail(err)
			pass(5 * time.Minute)
			synctest.Wait()
			if turns != want {
				t.Errorf("turned %d times after phase %d", turns, want)
			}
		}
		f.stop()
	})
}
