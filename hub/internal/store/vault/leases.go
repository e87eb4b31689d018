package vault

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// leasedFor is how long a key is not read again whose answer held a lease: each
	// read may make a credential. So a key costs one an hour at most.
	leasedFor = time.Hour
	// maxLeased bounds what is remembered of them.
	maxLeased = 1024
)

var errLeased = errors.New("the store answers this key with a lease, so it is in no KV secrets engine")

// leased are the keys whose answers held a lease: those of an engine that makes
// credentials. Where a class states a KV version Vault is not asked what the engine is,
// and where it does not, another engine may take the place of one that is known.
type leased struct {
	mu    sync.Mutex // guards until
	until map[policy.Key]time.Time
}

// check refuses a key that is known.
func (l *leased) check(key policy.Key, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until[key]) {
		return &store.Error{Reason: v1alpha1.ReasonKeyInvalid, Err: errLeased}
	}
	return nil
}

func (l *leased) keep(key policy.Key, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil || len(l.until) >= maxLeased {
		l.until = map[policy.Key]time.Time{}
	}
	l.until[key] = until
}

// refuseLease answers why there is no document where an answer holds a lease, and gives
// the lease back.
func (c *Client) refuseLease(ctx context.Context, key policy.Key, id string) error {
	c.leased.keep(key, time.Now().Add(leasedFor))
	body, err := json.Marshal(map[string]string{"lease_id": id})
	if err != nil {
		return err
	}
	// A token that may not revoke it leaves it to end by itself.
	_, _ = c.http.put(ctx, c.session.token(), "sys/leases/revoke", body)
	return &store.Error{Reason: v1alpha1.ReasonKeyInvalid, Err: errLeased}
}
