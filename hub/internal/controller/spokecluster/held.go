package spokecluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
)

// Held counts the sessions of each replica, as the statuses of SpokeClusters name them.
func Held(ctx context.Context, hub client.Reader) (map[string]int, error) {
	var all v1alpha1.SpokeClusterList
	if err := hub.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	held := map[string]int{}
	for i := range all.Items {
		if s := all.Items[i].Status.Session; s != nil && registry.Connected(&all.Items[i]) {
			held[s.Hub]++
		}
	}
	return held, nil
}
