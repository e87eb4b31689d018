package feed_test

import (
	"context"
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
				for n := range 50 {
					f.Refresh(sub(1), fmt.Sprint(n))
				}
				f.Refresh(sub(2), "now")
				synctest.Wait()
				if n := s.Fetches(key); n < 2 || n > 4 {
					t.Errorf("%d fetches, want the first and hardly more than one for fifty calls", n)
				}
				f.stop()
			})
		})
	}
}

// tardy is a store whose every fetch takes 20 seconds.
type tardy struct{ *memory.Store }

func (s tardy) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(20 * time.Second):
		return s.Store.Fetch(ctx, key)
	}
}

func TestRefresh_OwesAFetchThatBeganAfterTheRequest(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"and the document did not change": nil,
		"and that fetch fails":            failing(v1alpha1.ReasonStoreUnreachable),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				s.Put(key, "one")
				source := feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return polled{tardy{s}}, nil }}
				f := start(t)
				f.Subscribe(sub(1), source, key, time.Minute)
				f.Subscribe(sub(2), source, key, time.Minute)
				pass(10 * time.Second) // in the middle of the first fetch
				if !f.Refresh(sub(1), "a").Owed {
					t.Error("a fetch that began before the request was taken for its answer")
				}
				pass(20 * time.Second) // in the middle of the second
				if got := f.Subscribe(sub(1), source, key, time.Minute); text(got) != "one" || !got.Owed {
					t.Errorf("document %q, owed %v; want the first fetch's and a fetch owed", text(got), got.Owed)
				}
				s.Fail(failure)
				f.wakes(sub(1))
				f.wakes(sub(2))
				pass(15 * time.Second)
				told := f.wakes(sub(1))
				if got := f.Refresh(sub(1), "a"); got.Owed || told != 1 || store.ReasonOf(got.Err) != store.ReasonOf(failure) {
					t.Errorf("owed %v, woken %d times, error %v; want the request done, told once", got.Owed, told, got.Err)
				}
				if n := f.wakes(sub(2)); failure == nil && n != 0 {
					t.Errorf("who did not ask was woken %d times by an unchanged document", n)
				}
				before := s.Fetches(key)
				f.Refresh(sub(1), "a")
				synctest.Wait()
				if s.Fetches(key) != before || f.Subscribe(sub(1), source, key, time.Minute).Owed {
					t.Error("a request that was made before is made again")
				}
				f.stop()
			})
		})
	}
}
