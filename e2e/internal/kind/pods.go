package kind

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// pods are a hub or an agent as the pods of a Deployment.
type pods struct {
	cluster *Cluster
	// name of the Deployment, and of the app that labels its pods.
	name string
	// replicas that a start makes.
	replicas int32
	// kubectl works for as long as the fleet does.
	kubectl func(args ...string) (string, error)
	// flags were added at the last start.
	flags []string
}

var _ stage.Deployed = (*pods)(nil)

func newPods(ctx context.Context, c *Cluster, name string, replicas int32) *pods {
	return &pods{cluster: c, name: name, replicas: replicas, kubectl: func(args ...string) (string, error) {
		return c.Kubectl(ctx, "", append([]string{"--namespace", stage.Namespace}, args...)...)
	}}
}

// Start scales the Deployment up, with further flags, and waits until it has rolled
// out.
func (p *pods) Start(ctx context.Context, flags ...string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment := &appsv1.Deployment{}
		if err := p.cluster.Client.Get(ctx, client.ObjectKey{Namespace: stage.Namespace, Name: p.name}, deployment); err != nil {
			return err
		}
		container := &deployment.Spec.Template.Spec.Containers[0]
		args := slices.DeleteFunc(container.Args, func(arg string) bool { return slices.Contains(p.flags, arg) })
		container.Args, deployment.Spec.Replicas = slices.Concat(args, flags), &p.replicas
		return p.cluster.Client.Update(ctx, deployment)
	})
	if err != nil {
		return err
	}
	p.flags = flags
	_, err = p.kubectl("rollout", "status", "deployment/"+p.name, "--timeout=5m")
	return err
}

// Kill ends every pod at once, and lets no other come. Who goes on finds out when it
// fails.
func (p *pods) Kill() { _ = p.stop("--grace-period=0", "--force") }

// Terminate deletes every pod, lets no other come, and waits until they are gone.
func (p *pods) Terminate(context.Context) error { return p.stop("--timeout=5m") }

func (p *pods) stop(how ...string) error {
	if _, err := p.kubectl("scale", "deployment/"+p.name, "--replicas=0"); err != nil {
		return err
	}
	_, err := p.kubectl(append([]string{"delete", "pods", "--selector", p.selector()}, how...)...)
	return err
}

// Log is what the pods that are there have written.
func (p *pods) Log() ([]byte, error) {
	text, err := p.kubectl("logs", "--selector", p.selector(), "--tail=-1")
	return []byte(text), err
}

// Disk is what the cluster's node keeps on disk.
func (p *pods) Disk(ctx context.Context) (string, error) { return p.cluster.Disk(ctx) }

func (p *pods) selector() string { return "app.kubernetes.io/name=" + p.name }
