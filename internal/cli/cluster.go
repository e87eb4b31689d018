package cli

import (
	"github.com/spf13/cobra"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// newCluster steers the clusters of the fleet.
func newCluster(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Enroll, list, suspend and revoke the clusters of the fleet",
		Args:  usage(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newEnroll(a), newGetClusters(a, "list"),
		newClusterSuspension(a, "suspend", "Close a cluster's session and refuse new ones; targets there keep what they have", "suspended", true),
		newClusterSuspension(a, "resume", "Let suspended clusters go on", "resumed", false),
		newRevoke(a),
	)
	return cmd
}

// newClusterSuspension makes the command that sets spec.suspend of SpokeClusters.
func newClusterSuspension(a *app, use, short, done string, suspend bool) *cobra.Command {
	return &cobra.Command{
		Use:               use + " NAME...",
		Short:             short,
		Args:              usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeClusters(false),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.eachCluster(cmd, names, func(hub *kube.Conn, cluster *v1alpha1.SpokeCluster) error {
				if err := patch(cmd.Context(), hub, cluster, suspendPatch(suspend)); err != nil {
					return err
				}
				a.say("%s %s", nameOf(cluster), done)
				return nil
			})
		},
	}
}

// newRevoke takes a cluster's identity away.
func newRevoke(a *app) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "revoke NAME...",
		Short: "Take a cluster's identity away: its session ends and it cannot enroll again",
		Long: "Suspends a cluster, takes its acceptance back and removes the keys and the join token of its spec. Its\n" +
			"session ends, and neither its certificate nor a new enrolment is accepted. Targets in the cluster stay.\n\n" +
			"Keys that the hub pinned by itself, at a first contact with a join token, stay in the status and would\n" +
			"count again if the cluster were accepted again. Where the cluster's signing key may be stolen, use\n" +
			"--delete: that forgets everything, and the name starts anew.",
		Args:              usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeClusters(false),
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "Delete the SpokeCluster, with everything the hub knows of the cluster")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return a.eachCluster(cmd, names, func(hub *kube.Conn, cluster *v1alpha1.SpokeCluster) error {
			if remove {
				if err := hub.Delete(cmd.Context(), cluster); err != nil {
					return hub.Wrap(err)
				}
				a.say("%s deleted", nameOf(cluster))
				return nil
			}
			revoked := map[string]any{"spec": map[string]any{"suspend": true, "accepted": false, "keys": nil, "joinToken": nil}}
			if err := patch(cmd.Context(), hub, cluster, revoked); err != nil {
				return err
			}
			a.say("%s revoked", nameOf(cluster))
			if cluster.Status.Keys != nil {
				a.say("keys pinned at its first contact stay in its status: --delete forgets them")
			}
			return nil
		})
	}
	return cmd
}

// eachCluster does something with each SpokeCluster of some names.
func (a *app) eachCluster(cmd *cobra.Command, names []string, do func(*kube.Conn, *v1alpha1.SpokeCluster) error) error {
	hub, err := a.clusters.Hub()
	if err != nil {
		return err
	}
	return forEach(names, func(name string) error {
		cluster, err := hub.SpokeCluster(cmd.Context(), name)
		if err != nil {
			return err
		}
		return do(hub, cluster)
	})
}
