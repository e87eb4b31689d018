package cli

import (
	"context"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/enrol"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// checkKeys refuses to give a cluster's name to what looks like another cluster.
func (e *enrollment) checkKeys(cluster *v1alpha1.SpokeCluster, keys *v1alpha1.ClusterKeys) error {
	pinned := 0
	for _, known := range []*v1alpha1.ClusterKeys{cluster.Spec.Keys, cluster.Status.Keys} {
		if known == nil || keys == nil {
			continue
		}
		if known.Issuer == keys.Issuer && enrol.SharesKey(known, keys) {
			return nil
		}
		pinned++
	}
	if pinned == 0 || e.replaceKeys {
		return nil
	}
	return failf("does --context name the right cluster? --replace-keys gives the name to this one",
		"%s has keys pinned, and this cluster has none of them", nameOf(cluster))
}

// checkOthers refuses a second name for a cluster: both would be proven by the same
// keys, and one agent could be either.
func (e *enrollment) checkOthers(ctx context.Context, hub *kube.Conn, keys *v1alpha1.ClusterKeys) error {
	if keys == nil || e.sharedKeys {
		return nil
	}
	list := &v1alpha1.SpokeClusterList{}
	if err := hub.List(ctx, list); err != nil {
		return hub.Wrap(err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == e.name {
			continue
		}
		for _, known := range []*v1alpha1.ClusterKeys{other.Spec.Keys, other.Status.Keys} {
			if known != nil && enrol.SharesKey(known, keys) {
				return failf("does --context name the right cluster? dynconf cluster revoke "+other.Name+" --delete takes that name away; --shared-keys keeps both",
					"this cluster is enrolled as %s: a key of its own is pinned there", nameOf(other))
			}
		}
	}
	return nil
}
