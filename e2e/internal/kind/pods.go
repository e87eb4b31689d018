package kind

import (
	"context"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// pods are a hub or an agent as the pods of a Deployment.
type pods struct {
	cluster *Cluster
	// name of the Deployment, and of the app that labels its pods.
	name string
	// kubectl works for as long as the fleet does.
	kubectl func(args ...string) (string, error)
}

var _ stage.Deployed = (*pods)(nil)

func newPods(ctx context.Context, c *Cluster, name string) *pods {
	return &pods{cluster: c, name: name, kubectl: func(args ...string) (string, error) {
		return c.Kubectl(ctx, "", append([]string{"--namespace", stage.Namespace}, args...)...)
	}}
}

// Start waits until the Deployment has rolled out: it makes pods by itself.
func (p *pods) Start(ctx context.Context) error {
	_, err := p.cluster.Kubectl(ctx, "", "rollout", "status", "--namespace", stage.Namespace, "deployment/"+p.name, "--timeout=2m")
	return err
}

// Kill ends every pod at once. Who waits for new pods finds out when it fails.
func (p *pods) Kill() {
	_, _ = p.kubectl("delete", "pods", "--selector", p.selector(), "--grace-period=0", "--force")
}

// Terminate deletes every pod and waits until it is gone.
func (p *pods) Terminate(ctx context.Context) error {
	_, err := p.cluster.Kubectl(ctx, "", "delete", "pods", "--namespace", stage.Namespace, "--selector", p.selector(), "--timeout=2m")
	return err
}

// Log is what the pods that are there have written.
func (p *pods) Log() ([]byte, error) {
	text, err := p.kubectl("logs", "--selector", p.selector(), "--tail=-1", "--prefix")
	return []byte(text), err
}

// Disk is what the cluster's node keeps on disk.
func (p *pods) Disk(ctx context.Context) (string, error) { return p.cluster.Disk(ctx) }

func (p *pods) selector() string { return "app.kubernetes.io/name=" + p.name }
