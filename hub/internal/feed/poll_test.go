package feed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// cheap is a store that learns cheaply that a document stayed as it was.
type cheap struct {
	store.Reader
	polls *atomic.Int64
}

func (c cheap) Poll(ctx context.Context, key policy.Key, last *store.Document) (*store.Document, error) {
	c.polls.Add(1)
	doc, err := c.Fetch(ctx, key)
	if err == nil && doc.Version == last.Version {
		return last, nil
	}
	return doc, err
}

func TestPoll_WhatIsHeldIsPolledAndTheRestFetched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, polls := memory.New(), &atomic.Int64{}
		source := feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return cheap{s, polls}, nil }}
		f := start(t)
		f.Subscribe(sub(1), source, key, time.Minute)
		pass(3 * time.Minute)
		if got := polls.Load(); got != 0 {
			t.Errorf("an absent document was polled %d times", got)
		}
		s.Put(key, "one")
		pass(2 * time.Minute)
		first := f.Subscribe(sub(1), source, key, time.Minute)
		before, woken := polls.Load(), f.wakes(sub(1))
		pass(10 * time.Minute)
		if got := polls.Load() - before; got < 9 || text(first) != "one" || woken == 0 {
			t.Errorf("%d polls in ten minutes of %q, woken %d times before", got, text(first), woken)
		}
		if woken := f.wakes(sub(1)); woken != 0 {
			t.Errorf("woken %d times while nothing moved", woken)
		}
		s.Put(key, "two")
		pass(2 * time.Minute)
		if got := f.Subscribe(sub(1), source, key, time.Minute); text(got) != "two" || f.wakes(sub(1)) != 1 {
			t.Errorf("got %q", text(got))
		}
		f.stop()
	})
}
