package feed_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

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
			s.Put(policy.Key(fmt.Sprint(n)), "text")
			f.Subscribe(sub(n), watched(s), policy.Key(fmt.Sprint(n)), 0)
		}
		pass(10 * time.Second) // at twenty a second
		f.ReleaseCluster("c3")
		f.ReleaseCluster("unknown")
		synctest.Wait()
		if got := f.Stats(); got.Subscribers != 90 || got.Feeds != 90 || got.Bytes != 90*4 {
			t.Errorf("stats %+v, want 90 subscribers and feeds of 4 bytes", got)
		}
		for n := range 100 {
			f.Release(sub(n))
			f.Release(sub(n))
		}
		synctest.Wait()
		if got := f.Stats(); got.Subscribers != 0 || got.Feeds != 0 || got.Sources != 0 || got.Bytes != 0 {
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
