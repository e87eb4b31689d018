package feed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

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
		want := feed.Stats{Sources: 1, Feeds: 1, Subscribers: 500, Bytes: 3, Fetches: 1, Watches: 1}
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

// picky fails for one key as if it were down.
type picky struct{ *memory.Store }

func (p picky) Fetch(ctx context.Context, k policy.Key) (*store.Document, error) {
	doc, err := p.Store.Fetch(ctx, k)
	if k == key {
		return nil, failing(v1alpha1.ReasonStoreTimeout)
	}
	return doc, err
}

func TestSubscribe_ADocumentForWhichAloneItsStoreFailsIsRarelyFetched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put("other", "one")
		source := feed.Source{ID: "class", Open: func() (store.Reader, error) { return polled{picky{s}}, nil }}
		f := start(t)
		f.Subscribe(sub(1), source, key, 24*time.Hour)
		f.Subscribe(sub(2), source, "other", 15*time.Second)
		pass(24 * time.Hour)
		if n := s.Fetches(key); n < 2 || n > 20 {
			t.Errorf("%d fetches a day, want a handful", n)
		}
		f.stop()
	})
}
