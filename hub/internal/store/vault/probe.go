package vault

import (
	"context"

	"dynamic-config.rs/fleet/hub/internal/store"
)

var _ store.Prober = (*Client)(nil)

// Probe logs in if need be, and has the store look the token up. A token that the
// client logged in for is good even where it may not look itself up.
func (c *Client) Probe(ctx context.Context) error {
	return named(c.lookUp(ctx), store.OpCheck, "")
}

func (c *Client) lookUp(ctx context.Context) error {
	held, err := c.session.current(ctx)
	if err != nil {
		return err
	}
	got, err := c.http.get(ctx, held.token, "auth/token/lookup-self")
	if err != nil {
		return err
	}
	if got.isForbidden() && c.session.method.replaceable() {
		return nil
	}
	return refused(got, "the store does not accept the token, or does not let it look itself up, which its policy default allows")
}
