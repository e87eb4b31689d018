package syncserver

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// takeKeys has the keys recorded that a cluster publishes, one report after the other. The
// handler does not wait for that: what ends the session must not wait for the API server.
func (c *conn) takeKeys(ctx context.Context, keys *fleetv1.ClusterKeys) {
	if !c.keys.Allow() {
		c.server.ignored.Add(1)
		return
	}
	before, recorded := c.recorded, make(chan struct{})
	c.recorded = recorded
	go func() { // ended by the timeouts of a burst, or with the session
		defer close(recorded)
		if before != nil {
			<-before
		}
		c.record(ctx, v1alpha1.ClusterKeys{Issuer: keys.GetIssuer(), JWKS: string(keys.GetJwks())})
	}()
}

// record records keys. What fails is not worth the session: the agent reports them again.
func (c *conn) record(ctx context.Context, keys v1alpha1.ClusterKeys) {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	if err := c.server.cfg.Registry.ReportKeys(ctx, c.cluster, keys); err != nil {
		c.server.ignored.Add(1)
		ctrl.LoggerFrom(ctx).Info("The cluster's keys were not recorded", "cause", err.Error())
	}
}
