package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/enrol"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/internal/identity"
)

const (
	// joinTokenLifetime is how long a join token is accepted.
	joinTokenLifetime = time.Hour
	// hubService is the name of the hub's Service, as its chart makes it.
	hubService = "dynamic-config-hub"
)

// enrollment is what cluster enroll is told.
type enrollment struct {
	*app
	name           string
	hubAddress     string
	hubNamespace   string
	agentNamespace string
	caFile         string
	labels         map[string]string
	joinToken      bool
	replaceKeys    bool
	sharedKeys     bool
}

// newEnroll lets a workload cluster join the fleet.
func newEnroll(a *app) *cobra.Command {
	e := &enrollment{app: a}
	cmd := &cobra.Command{
		Use:   "enroll NAME",
		Short: "Let a workload cluster join the fleet and print the command that installs its agent",
		Long: "Reads the public keys that the workload cluster (--context) signs its ServiceAccounts' tokens with, pins\n" +
			"them in the SpokeCluster of that name on the hub (--hub-context), writes the hub's roots to a file and\n" +
			"prints the command that installs the agent. It installs nothing, and may be run again.\n\n" +
			"With --join-token it also makes a token that enrolls the cluster once within an hour. The hub gets its\n" +
			"hash; the token itself is shown this once. Keys that can be read from here are pinned all the same.",
		Args: usage(cobra.ExactArgs(1)),
	}
	flags := cmd.Flags()
	flags.StringVar(&e.hubAddress, "hub-address", "", "host:port of the hub, as the agent reaches it; that of the hub's load balancer when empty")
	flags.StringVar(&e.caFile, "ca-file", "dynamic-config-hub-ca.crt", "File to write the hub's roots to")
	flags.StringToStringVar(&e.labels, "labels", nil, "Labels of the SpokeCluster, which classes select by")
	flags.BoolVar(&e.joinToken, "join-token", false, "Make a join token too; needed where the cluster's keys cannot be read from here")
	flags.BoolVar(&e.replaceKeys, "replace-keys", false, "Replace pinned keys with others that have none in common")
	flags.BoolVar(&e.sharedKeys, "shared-keys", false, "Enroll a cluster although its keys are pinned under another name too")
	addHubNamespace(cmd, &e.hubNamespace)
	addAgentNamespace(cmd, &e.agentNamespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e.name = args[0]
		return e.run(cmd.Context())
	}
	return cmd
}

// addHubNamespace adds the flag for the hub's namespace.
func addHubNamespace(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "hub-namespace", v1alpha1.DefaultSpokeNamespace, "Namespace of the hub in the hub cluster")
}

func (e *enrollment) run(ctx context.Context) error {
	if err := identity.ValidateCluster(e.name); err != nil {
		return failf("for instance prod-eu-1", "%q: %w", e.name, err)
	}
	hub, err := e.clusters.Hub()
	if err != nil {
		return err
	}
	// Everything is read before anything is written.
	keys, err := e.keys(ctx)
	if err != nil {
		return err
	}
	roots, err := hub.HubRoots(ctx, e.hubNamespace)
	switch {
	case hub.Assumed && kube.Absent(err):
		return &hinted{err: err, hint: assumedHub}
	case err != nil:
		return &hinted{err: err, hint: "the hub publishes its roots in its namespace, --hub-namespace, at its first start"}
	}
	if _, err := kube.ParseCertificates(roots); err != nil {
		return hub.Wrap(fmt.Errorf("ConfigMap %s: %w", kube.HubRootsConfigMap, err))
	}
	address, err := e.address(ctx, hub)
	if err != nil {
		return err
	}
	token, err := e.register(ctx, hub, keys)
	if err != nil {
		return err
	}
	if err := os.WriteFile(e.caFile, roots, 0o600); err != nil {
		return failf("--ca-file names another", "the cluster is accepted, and the hub's roots cannot be written: %w", err)
	}
	return e.printScript(address, token)
}

// keys reads the workload cluster's. With a join token it may be out of reach: then the
// first contact pins them.
func (e *enrollment) keys(ctx context.Context) (*v1alpha1.ClusterKeys, error) {
	workload, err := e.clusters.Workload()
	if err != nil {
		return nil, err
	}
	keys, err := enrol.ReadKeys(ctx, workload.Config)
	if err != nil && e.joinToken {
		e.say("the cluster's keys cannot be read from here; the join token pins them at the first contact")
		return nil, nil
	}
	return keys, workload.Wrap(err)
}

// address is where the agent reaches the hub.
func (e *enrollment) address(ctx context.Context, hub *kube.Conn) (string, error) {
	if e.hubAddress != "" {
		if _, _, err := net.SplitHostPort(e.hubAddress); err != nil {
			return "", failf("for instance hub.example:8443", "--hub-address: %w", err)
		}
		return e.hubAddress, nil
	}
	service := &corev1.Service{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: e.hubNamespace, Name: hubService}, service)
	if err == nil && len(service.Status.LoadBalancer.Ingress) > 0 && len(service.Spec.Ports) > 0 {
		ingress := service.Status.LoadBalancer.Ingress[0]
		host := ingress.Hostname
		if host == "" {
			host = ingress.IP
		}
		return net.JoinHostPort(host, fmt.Sprint(service.Spec.Ports[0].Port)), nil
	}
	return "", failf("--hub-address host:port says it", "no load balancer says where the hub is reached")
}

// register makes or updates the SpokeCluster and returns the join token, if one is
// wanted.
func (e *enrollment) register(ctx context.Context, hub *kube.Conn, keys *v1alpha1.ClusterKeys) (token string, err error) {
	cluster := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: e.name}}
	err = hub.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return "", hub.Wrap(err)
	}
	if err := e.checkKeys(cluster, keys); err != nil {
		return "", err
	}
	if err := e.checkOthers(ctx, hub, keys); err != nil {
		return "", err
	}
	before := cluster.DeepCopy()
	token = e.fill(cluster, keys)
	if absent {
		err = hub.Create(ctx, cluster, client.FieldOwner(kube.FieldManager))
	} else {
		// The optimistic lock: keys that somebody else pins meanwhile are not overwritten.
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err = hub.Patch(ctx, cluster, patch, client.FieldOwner(kube.FieldManager))
	}
	if err != nil {
		return "", hub.Wrap(err)
	}
	e.say("%s is accepted", nameOf(cluster))
	if keys != nil {
		e.say("pinned: keys %s of issuer %s", strings.Join(enrol.KeyIDs(keys), ", "), keys.Issuer)
	}
	if cluster.Spec.Suspend {
		e.say("it is suspended: dynconf cluster resume %s lets it connect", e.name)
	}
	return token, nil
}

// fill writes what is wanted into a SpokeCluster.
func (e *enrollment) fill(cluster *v1alpha1.SpokeCluster, keys *v1alpha1.ClusterKeys) (token string) {
	cluster.Spec.Accepted = true
	if keys != nil {
		cluster.Spec.Keys = keys
	}
	cluster.Spec.ServiceAccount = nil // the chart's own
	if e.agentNamespace != v1alpha1.DefaultSpokeNamespace {
		cluster.Spec.ServiceAccount = &v1alpha1.ServiceAccountReference{
			Namespace: e.agentNamespace, Name: v1alpha1.DefaultSpokeServiceAccount,
		}
	}
	if len(e.labels) > 0 && cluster.Labels == nil {
		cluster.Labels = map[string]string{}
	}
	maps.Copy(cluster.Labels, e.labels)
	if e.joinToken {
		var hash string
		token, hash = identity.NewJoinToken()
		cluster.Spec.JoinToken = &v1alpha1.JoinToken{SHA256: hash, ExpiresAt: metav1.NewTime(e.now().Add(joinTokenLifetime))}
	}
	return token
}

// printScript prints what installs the agent.
func (e *enrollment) printScript(address, token string) error {
	install := enrol.Install{
		Cluster: e.name, HubAddress: address, CAFile: e.caFile, Namespace: e.agentNamespace, JoinToken: token,
	}
	install.Kubeconfig, install.Context = e.clusters.WorkloadFlags()
	e.say("the hub's roots are in %s; the agent is installed by:", e.caFile)
	_, err := fmt.Fprint(e.Out, install.Script())
	return err
}
