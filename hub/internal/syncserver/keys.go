package syncserver

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// takeKeys records the keys that a cluster publishes. What fails is not worth the
// session: the next one reports them again.
func (c *conn) takeKeys(ctx context.Context, keys *fleetv1.ClusterKeys) {
	if !c.keys.Allow() {
		c.server.ignored.Add(1)
		return
	}
	err := c.server.cfg.Registry.ReportKeys(ctx, c.cluster, v1alpha1.ClusterKeys{Issuer: keys.GetIssuer(), JWKS: string(keys.GetJwks())})
	if err != nil {
		c.server.ignored.Add(1)
		ctrl.LoggerFrom(ctx).Info("The cluster's keys were not recorded", "cause", err.Error())
	}
}
