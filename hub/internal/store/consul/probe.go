package consul

import (
	"context"
	"errors"
	"net/http"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

var _ store.Prober = (*Client)(nil)

// Probe has Consul look the token up; without one, or where ACLs are off, it asks for
// Consul's leader.
func (c *Client) Probe(ctx context.Context) error {
	return about(store.OpCheck, "", c.requests.alive(ctx, c.hasToken))
}

func (r *requests) alive(ctx context.Context, hasToken bool) error {
	bounded, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if hasToken {
		known, err := r.knowsToken(bounded)
		if known || err != nil {
			return orEnd(ctx, err)
		}
	}
	bounded, met := withExchange(bounded)
	leader, err := r.client.Status().LeaderWithQueryOptions((&api.QueryOptions{}).WithContext(bounded))
	switch {
	case err != nil:
		return orEnd(ctx, classify(err, met))
	case leader == "":
		return &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: errors.New("the store has no leader")}
	}
	return nil
}

// knowsToken is false without an error where ACLs are off and any token will do.
func (r *requests) knowsToken(ctx context.Context) (bool, error) {
	ctx, met := withExchange(ctx)
	_, _, err := r.client.ACL().TokenReadSelf((&api.QueryOptions{}).WithContext(ctx))
	if err == nil {
		return true, nil
	}
	if met.status == http.StatusUnauthorized {
		return false, nil
	}
	return false, classify(err, met)
}

// orEnd is the context's error where that ended first.
func orEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
