package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// fixture is Feeds that run until the bubble's test ends, and who was woken.
type fixture struct {
	*feed.Feeds

	mu    sync.Mutex
	woken map[feed.Subscriber]int
	stop  func()
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{woken: map[feed.Subscriber]int{}}
	f.Feeds = feed.New(feed.Config{Wake: func(sub feed.Subscriber) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.woken[sub]++
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// wakes answers how often the subscriber was woken since the last call, once
// everything that is due has happened.
func (f *fixture) wakes(sub feed.Subscriber) int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.woken[sub]
	f.woken[sub] = 0
	return n
}

// pass lets the bubble's time pass.
func pass(d time.Duration) {
	<-time.After(d)
}

// polled hides that a store can be watched.
type polled struct{ store.Reader }

// watched is a source that can be watched.
func watched(s *memory.Store) feed.Source {
	return feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return s, nil }}
}

// unwatched is a source that can only be polled.
func unwatched(s *memory.Store) feed.Source {
	return feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return polled{s}, nil }}
}

func sub(n int) feed.Subscriber {
	return feed.Subscriber{Cluster: fmt.Sprintf("c%d", n%10), Namespace: "team", Name: fmt.Sprint(n)}
}

func text(s feed.Snapshot) string {
	if s.Document == nil {
		return ""
	}
	return string(s.Document.Text)
}

func failing(reason string) error {
	return &store.Error{Reason: reason, Op: "fetch", Err: errors.New("told to fail")}
}

const key = policy.Key("app/db.json")

func TestSubscribe_OneFetchForTheWholeFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		f := start(t)
		known := map[int]bool{} // who came late enough to be answered at once
		for n := range 500 {
			got := f.Subscribe(sub(n), watched(s), key, 0)
			known[n] = got.Document != nil
		}
		for n := range 500 {
			if woken := f.wakes(sub(n)); woken > 1 || woken == 0 && !known[n] {
				t.Fatalf("subscriber %d was woken %d times", n, woken)
			}
		}
		first := f.Subscribe(sub(0), watched(s), key, 0)
		for n := range 500 {
			if got := f.Subscribe(sub(n), watched(s), key, 0); got.Document != first.Document {
				t.Fatal("subscribers do not share the document")
			}
		}
		if s.Fetches(key) != 1 || text(first) != "one" {
			t.Errorf("%d fetches, document %q; want 1, one", s.Fetches(key), text(first))
		}
		want := feed.Stats{Sources: 1, Feeds: 1, Subscribers: 500, Fetches: 1, Watches: 1}
		if got := f.Stats(); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		f.stop()
	})
}

func TestSubscribe_AChangeArrives(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		source func(*memory.Store) feed.Source
		within time.Duration
	}{
		"at once from a store that is watched":        {watched, 0},
		"within the interval from one that is polled": {unwatched, 66 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				s.Put(key, "one")
				f := start(t)
				f.Subscribe(sub(1), tc.source(s), key, time.Minute)
				f.wakes(sub(1))
				s.Put(key, "two")
				pass(tc.within)
				woken := f.wakes(sub(1))
				if got := f.Subscribe(sub(1), tc.source(s), key, time.Minute); text(got) != "two" || woken != 1 {
					t.Errorf("document %q, woken %d times; want two, once", text(got), woken)
				}
				f.stop()
			})
		})
	}
}

func TestSubscribe_AnUnchangedDocumentWakesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		f := start(t)
		f.Subscribe(sub(1), unwatched(s), key, time.Second)
		f.wakes(sub(1))
		pass(time.Hour)
		if n := f.wakes(sub(1)); n != 0 {
			t.Errorf("woken %d times", n)
		}
		if n := s.Fetches(key); n < 3500 || n > 3602 {
			t.Errorf("%d fetches in an hour at one a second", n)
		}
		f.stop()
	})
}

func TestSubscribe_LastGoodIsKept(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*memory.Store) feed.Source{"watched": watched, "polled": unwatched} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				s.Put(key, "one")
				f := start(t)
				f.Subscribe(sub(1), source(s), key, 15*time.Second)
				f.wakes(sub(1))

				s.Fail(failing(v1alpha1.ReasonStoreUnreachable))
				pass(10 * time.Minute)
				if n := f.wakes(sub(1)); n != 1 {
					t.Errorf("woken %d times by one lasting error, want once", n)
				}
				got := f.Subscribe(sub(1), source(s), key, 15*time.Second)
				if text(got) != "one" || store.ReasonOf(got.Err) != v1alpha1.ReasonStoreUnreachable {
					t.Errorf("document %q, error %v; want the last good one and the error", text(got), got.Err)
				}

				s.Fail(nil)
				pass(30 * time.Second)
				if n := f.wakes(sub(1)); n != 1 {
					t.Errorf("woken %d times by the return of the store, want once", n)
				}
				again := f.Subscribe(sub(1), source(s), key, 15*time.Second)
				if again.Document != got.Document || again.Err != nil {
					t.Errorf("error %v; want the same document and no error", again.Err)
				}

				s.Delete(key)
				pass(17 * time.Second)
				got = f.Subscribe(sub(1), source(s), key, 15*time.Second)
				if text(got) != "one" || !store.IsAbsent(got.Err) {
					t.Errorf("document %q, error %v; want the last good one and absent", text(got), got.Err)
				}
				s.Put(key, "two")
				pass(17 * time.Second)
				if got = f.Subscribe(sub(1), source(s), key, 15*time.Second); text(got) != "two" || got.Err != nil {
					t.Errorf("document %q, error %v; want two", text(got), got.Err)
				}
				f.stop()
			})
		})
	}
}

func TestSubscribe_ABrokenDocumentIsRarelyFetched(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		interval time.Duration
		most     int
	}{
		"with an interval of a day, a handful a day":     {v1alpha1.ReasonDocumentTooLarge, 24 * time.Hour, 2},
		"also while the store as a whole fails":          {v1alpha1.ReasonStoreUnreachable, 24 * time.Hour, 2},
		"with an interval of 15 s, every five minutes":   {v1alpha1.ReasonKeyForbidden, 15 * time.Second, 300},
		"a refused credential is not tried all the time": {v1alpha1.ReasonCredentialRejected, 15 * time.Second, 300},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				s.Fail(failing(tc.reason))
				f := start(t)
				for n := range 10 {
					f.Subscribe(sub(n), watched(s), key, tc.interval)
				}
				pass(24 * time.Hour)
				if n := s.Fetches(key); n > tc.most || n == 0 {
					t.Errorf("%d fetches a day, want at most %d", n, tc.most)
				}
				f.stop()
			})
		})
	}
}

func TestSubscribe_ADocumentThatAlwaysChangesIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "start")
		f := start(t)
		f.Subscribe(sub(1), watched(s), key, 0)
		for n := range 6000 {
			s.Put(key, fmt.Sprint(n))
			pass(10 * time.Millisecond)
		}
		if n := f.wakes(sub(1)); n > 65 || n < 55 {
			t.Errorf("woken %d times in a minute of changes, want about once a second", n)
		}
		pass(2 * time.Second)
		if got := f.Subscribe(sub(1), watched(s), key, 0); text(got) != "5999" {
			t.Errorf("document %q, want the last one", text(got))
		}
		f.stop()
	})
}

func TestSubscribe_TheShortestIntervalCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		f := start(t)
		source := unwatched(s)
		source.Limits.MinInterval = 5 * time.Second
		perHour := func() int {
			synctest.Wait()
			before := s.Fetches(key)
			pass(time.Hour)
			return s.Fetches(key) - before
		}
		near := func(what string, got, want int) {
			t.Helper()
			if got < want-want/10-1 || got > want+want/10+1 {
				t.Errorf("%s: %d fetches an hour, want about %d", what, got, want)
			}
		}
		f.Subscribe(sub(1), source, key, time.Hour)
		near("one an hour", perHour(), 1)
		f.Subscribe(sub(2), source, key, 10*time.Second)
		near("a second subscriber at 10 s", perHour(), 360)
		f.Subscribe(sub(3), source, key, time.Second)
		near("a third below the source's shortest", perHour(), 720)
		f.Release(sub(3))
		near("the third left", perHour(), 360)
		f.Subscribe(sub(2), source, key, time.Minute)
		near("the second is content with a minute", perHour(), 60)
		f.stop()
	})
}

func TestSubscribe_AnotherRevisionStartsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before, after := memory.New(), memory.New()
		before.Put(key, "old")
		after.Put(key, "new")
		f := start(t)
		f.Subscribe(sub(1), watched(before), key, 0)
		f.Subscribe(sub(2), watched(before), key, 0)
		f.wakes(sub(1))

		next := watched(after)
		next.Revision = "2"
		if got := f.Subscribe(sub(1), next, key, 0); got.Document != nil || got.Err != nil {
			t.Errorf("document %q, error %v; want nothing of the old revision", text(got), got.Err)
		}
		if n := f.wakes(sub(1)); n != 1 {
			t.Errorf("woken %d times, want once", n)
		}
		if got := f.Subscribe(sub(1), next, key, 0); text(got) != "new" {
			t.Errorf("document %q, want new", text(got))
		}
		if before.Closed() {
			t.Error("the old reader is closed while somebody uses it")
		}
		f.Subscribe(sub(2), next, key, 0)
		synctest.Wait()
		if !before.Closed() || after.Closed() {
			t.Errorf("old reader closed %t, new reader closed %t", before.Closed(), after.Closed())
		}
		if got := f.Stats(); got.Sources != 1 || got.Feeds != 1 || got.Subscribers != 2 {
			t.Errorf("stats %+v", got)
		}
		f.stop()
		if !after.Closed() {
			t.Error("the reader is open after the end of Run")
		}
	})
}

func TestSubscribe_AnotherKeyKeepsTheReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put("a", "of a")
		s.Put("b", "of b")
		opened := 0
		source := feed.Source{ID: "class", Open: func() (store.Reader, error) { opened++; return s, nil }}
		f := start(t)
		f.Subscribe(sub(1), source, "a", 0)
		f.wakes(sub(1))
		f.Subscribe(sub(1), source, "b", 0)
		f.wakes(sub(1))
		if got := f.Subscribe(sub(1), source, "b", 0); text(got) != "of b" {
			t.Errorf("document %q", text(got))
		}
		s.Put("a", "moved")
		if n := f.wakes(sub(1)); n != 0 {
			t.Error("woken by the document it left")
		}
		if opened != 1 || s.Closed() {
			t.Errorf("opened %d times, closed %t; want one open reader", opened, s.Closed())
		}
		f.stop()
	})
}

func TestRelease_LeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		f := start(t)
		for n := range 100 {
			f.Subscribe(sub(n), watched(s), policy.Key(fmt.Sprint(n)), 0)
		}
		synctest.Wait()
		f.ReleaseCluster("c3")
		f.ReleaseCluster("unknown")
		synctest.Wait()
		if got := f.Stats(); got.Subscribers != 90 || got.Feeds != 90 {
			t.Errorf("stats %+v, want 90 subscribers and feeds", got)
		}
		for n := range 100 {
			f.Release(sub(n))
			f.Release(sub(n))
		}
		synctest.Wait()
		if got := f.Stats(); got.Subscribers != 0 || got.Feeds != 0 || got.Sources != 0 {
			t.Errorf("stats %+v, want nothing left", got)
		}
		if !s.Closed() {
			t.Error("the reader is open though nobody is left")
		}
		f.stop()
	})
}

func TestRun_StartsWhatWasSubscribedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		f := feed.New(feed.Config{Wake: func(feed.Subscriber) {}})
		f.Subscribe(sub(1), watched(s), key, 0)
		f.Subscribe(sub(2), watched(s), "gone", 0)
		f.Release(sub(2))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		if got := f.Subscribe(sub(1), watched(s), key, 0); text(got) != "one" {
			t.Errorf("document %q", text(got))
		}
		if s.Fetches("gone") != 0 {
			t.Error("fetched for nobody")
		}
		if err := f.Run(ctx); err == nil {
			t.Error("Run ran twice")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		source func(*memory.Store) feed.Source
		fail   error
	}{
		"of a polled document":  {unwatched, nil},
		"of a watched document": {watched, nil},
		"of a failing document": {watched, failing(v1alpha1.ReasonKeyForbidden)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				s.Put(key, "one")
				s.Fail(tc.fail)
				f := start(t)
				f.Subscribe(sub(1), tc.source(s), key, 24*time.Hour)
				synctest.Wait()
				for range 50 {
					f.Refresh(sub(1))
				}
				f.Refresh(sub(2))
				synctest.Wait()
				if n := s.Fetches(key); n < 2 || n > 4 {
					t.Errorf("%d fetches, want the first and hardly more than one for fifty calls", n)
				}
				f.stop()
			})
		})
	}
}

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
				f.Refresh(sub(0))
				synctest.Wait()
				pass(time.Second) // those already admitted get their answer
				s.Fail(nil)
				before := f.Stats()
				pass(58 * time.Second)
				f.Refresh(sub(1))
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

func TestDocument_Memo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		f := start(t)
		f.Subscribe(sub(1), watched(s), key, 0)
		f.wakes(sub(1))
		doc := f.Subscribe(sub(1), watched(s), key, 0).Document

		var computed atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if got := doc.Memo("shape", func() any { return computed.Add(1) }); got != int64(1) {
					t.Errorf("got %v", got)
				}
			})
		}
		group.Wait()
		if got := doc.Memo("another", func() any { return "other" }); got != "other" {
			t.Errorf("got %v for another key", got)
		}
		for n := range 1000 {
			if got := doc.Memo(n, func() any { return n }); got != n {
				t.Fatalf("got %v for key %d", got, n)
			}
		}
		s.Put(key, "two")
		f.wakes(sub(1))
		next := f.Subscribe(sub(1), watched(s), key, 0).Document
		if got := next.Memo("shape", func() any { return "of two" }); got != "of two" {
			t.Errorf("got %v for the next version", got)
		}
		f.stop()
	})
}
