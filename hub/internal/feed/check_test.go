package feed_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// A request that cannot be sent before the context's end is not waited for.
func TestCheck_SaysWhenTheSourceIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed.New(feed.Config{Wake: func(feed.Subscriber) {}})
		source := feed.Source{
			ID: "busy", Limits: feed.Limits{RequestsPerSecond: 1, Burst: 1},
			Open: func() (store.Reader, error) { return memory.New(), nil },
		}
		f.Subscribe(feed.Subscriber{Cluster: "c"}, source, "k", time.Minute) // keeps the source
		if err := f.Check(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := f.Check(ctx, source); !errors.Is(err, feed.ErrBusy) || ctx.Err() != nil {
			t.Errorf("error %v", err)
		}
	})
}

func TestCheck_SharesTheReaderOfTheFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, opens := start(t), 0
		s := memory.New()
		s.Put("a", "1")
		src := feed.Source{ID: "c", Revision: "1", Open: func() (store.Reader, error) { opens++; return s, nil }}

		if err := f.Check(t.Context(), src); err != nil || opens != 1 || !s.Closed() {
			t.Errorf("without feeds: %v, opened %d times, closed %v", err, opens, s.Closed())
		}
		f.Subscribe(feed.Subscriber{Name: "r"}, src, "a", time.Minute)
		synctest.Wait()
		for range 3 {
			if err := f.Check(t.Context(), src); err != nil {
				t.Error(err)
			}
		}
		if opens != 2 {
			t.Errorf("opened %d times, want once for the feed and once before", opens)
		}
		sealed := &store.Error{Reason: v1alpha1.ReasonStoreSealed, Op: store.OpCheck}
		s.Fail(sealed)
		if err := f.Check(t.Context(), src); !errors.Is(err, sealed) {
			t.Errorf("%v, want the store's own error", err)
		}
		f.stop()
	})
}

func TestCheck_AnOpenThatFailsIsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		invalid := &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: store.OpOpen}
		err := f.Check(t.Context(), feed.Source{ID: "c", Open: func() (store.Reader, error) { return nil, invalid }})
		if !errors.Is(err, invalid) {
			t.Errorf("%v", err)
		}
		if stats := f.Stats(); stats.Sources != 0 {
			t.Errorf("%d sources are held after the check", stats.Sources)
		}
		f.stop()
	})
}

// asleep is a store whose Probe never answers.
type asleep struct{ *memory.Store }

func (asleep) Probe(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCheck_TellsAStoreThatHangsFromOneThatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		source := feed.Source{
			ID: "c", Limits: feed.Limits{Concurrency: 1},
			Open: func() (store.Reader, error) { return asleep{memory.New()}, nil },
		}
		hanging, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- f.Check(hanging, source) }()
		synctest.Wait()
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Check(waiting, source); !errors.Is(err, feed.ErrBusy) {
			t.Errorf("%v, want that every place is taken", err)
		}
		if err := <-ended; store.ReasonOf(err) != v1alpha1.ReasonStoreTimeout {
			t.Errorf("%v, want that the store did not answer in time", err)
		}
		f.stop()
	})
}
