package consul

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// maxWatches leaves room under an agent's 200 connections for two more classes
	// on the same agent, or for other hub replicas behind one address.
	maxWatches = 64
	// blockFor is how long Consul is asked to block, on average: below the idle
	// timeout of usual proxies.
	blockFor = 50 * time.Second
	// hotPause and hotBurst bound how often a query is repeated that comes back
	// without news.
	hotPause = time.Second
	hotBurst = 3
)

// Watch blocks until the document's version is another than after. It answers
// store.ErrNotWatched while as many watches are held as one client may hold.
func (c *Client) Watch(ctx context.Context, key policy.Key, after string) (*store.Document, error) {
	select {
	case c.watches <- struct{}{}:
		defer func() { <-c.watches }()
	default:
		return nil, store.ErrNotWatched
	}
	// The version is an index to wait from; without one the first query does not
	// block and tells the index.
	index, err := strconv.ParseUint(after, 10, 64)
	if err != nil {
		index = 0
	}
	pace := rate.NewLimiter(rate.Every(hotPause), hotBurst)
	for {
		if err := sleep(ctx, pace.Reserve().Delay()); err != nil {
			return nil, err
		}
		got := c.block(ctx, key, index)
		switch {
		case got.err == nil && got.doc.Version != after:
			return got.doc, nil
		case got.err != nil && (after != "" || !store.IsAbsent(got.err)):
			return nil, got.err
		}
		index = nextIndex(index, got.index)
	}
}

// block makes one blocking query.
func (c *Client) block(ctx context.Context, key policy.Key, index uint64) reading {
	wait := jitter(blockFor)
	// Consul adds up to a sixteenth of the wait on its own.
	timeout := wait + wait/16 + fetchTimeout
	return c.get(ctx, "watch", key, api.QueryOptions{WaitIndex: index, WaitTime: wait}, timeout)
}

// nextIndex starts anew when Consul's index went back (a restored snapshot, a
// rebuilt cluster): waiting for the old one would wait for ever.
func nextIndex(sent, answered uint64) uint64 {
	if answered < sent {
		return 0
	}
	return answered
}

// jitter answers a duration within a fifth of the given one.
func jitter(d time.Duration) time.Duration {
	fifth := d / 5
	return d - fifth + rand.N(2*fifth) //nolint:gosec // spreads load, keeps no secret
}

// sleep waits, or answers the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
