package cli

import (
	"context"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/internal/cli/tree"
)

// newStatus draws one Render with what it depends on.
func newStatus(a *app) *cobra.Command {
	var agentNamespace string
	cmd := &cobra.Command{
		Use:               "status NAME",
		Short:             "Show a Render, its class, its document and its target as a tree",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeRenders(true),
	}
	out := newDataOutput(cmd)
	addAgentNamespace(cmd, &agentNamespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		parts, err := a.parts(cmd.Context(), args[0], agentNamespace)
		if err != nil {
			return err
		}
		root := tree.Of(parts)
		return out.print(a, root, func() error { return a.printTable(root.Table(a.now())) })
	}
	return cmd
}

// parts reads a Render, its class and its target. That the last two cannot be read is
// no error: the tree says why.
func (a *app) parts(ctx context.Context, name, agentNamespace string) (*tree.Parts, error) {
	workload, render, err := a.render(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &tree.Parts{Render: render}
	p.Class, p.ClassNote = a.classOf(ctx, render)
	p.Target, p.TargetNote = targetOf(ctx, workload, render)
	p.Cluster = a.clusterOf(ctx, agentNamespace)
	return p, nil
}

// clusterOf is the workload cluster as the hub sees it; nil where it cannot be told.
func (a *app) clusterOf(ctx context.Context, agentNamespace string) *v1alpha1.SpokeCluster {
	workload, err := a.clusters.Workload()
	if err != nil {
		return nil
	}
	hub, err := a.clusters.Hub()
	if err != nil {
		return nil
	}
	name := clusterName(ctx, workload, agentNamespace)
	if name == "" {
		return nil
	}
	cluster, err := hub.SpokeCluster(ctx, name)
	if err != nil {
		return nil
	}
	return cluster
}

// render reads a Render of the namespace in use.
func (a *app) render(ctx context.Context, name string) (*kube.Conn, *v1alpha1.DynamicConfigRender, error) {
	namespace, err := a.clusters.Namespace()
	if err != nil {
		return nil, nil, err
	}
	workload, err := a.clusters.Workload()
	if err != nil {
		return nil, nil, err
	}
	render, err := workload.Render(ctx, namespace, name)
	return workload, render, err
}

// classOf reads the class of a Render, or says why it cannot.
func (a *app) classOf(ctx context.Context, render *v1alpha1.DynamicConfigRender) (*kube.Class, string) {
	hub, err := a.clusters.Hub()
	if err != nil {
		return nil, "the hub cluster cannot be asked: " + err.Error()
	}
	class, err := hub.Class(ctx, render.Spec.EffectiveClassKind(), render.Namespace, render.Spec.Class)
	switch {
	case err == nil:
		return class, ""
	case kube.Absent(err) && a.clusters.HubStated():
		return nil, "is not on the hub"
	case kube.Absent(err):
		return nil, "is not in this cluster; --hub-context names the hub's"
	case apierrors.IsForbidden(err):
		return nil, "you may not read it on the hub"
	}
	return nil, "the hub cluster does not answer"
}

// targetOf reads the target's metadata, or says why it cannot.
func targetOf(ctx context.Context, workload *kube.Conn, render *v1alpha1.DynamicConfigRender) (*metav1.PartialObjectMetadata, string) {
	target, err := targetMetadata(ctx, workload, render.Namespace, render.Spec.Target.Kind(), render.Spec.Target.Name())
	switch {
	case err == nil && target.Labels[v1alpha1.LabelRenderUID] != string(render.UID):
		return target, "was not written by this Render"
	case err == nil:
		return target, ""
	case apierrors.IsNotFound(err):
		return nil, "does not exist"
	case apierrors.IsForbidden(err):
		return nil, "you may not read it"
	}
	return nil, "cannot be read"
}

// targetMetadata reads a ConfigMap or Secret without its data.
func targetMetadata(ctx context.Context, workload *kube.Conn, namespace, kind, name string) (*metav1.PartialObjectMetadata, error) {
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
	return target, workload.Wrap(workload.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, target))
}
