package render

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
)

// onRender queues a Render at every event of its mirror. Where a sync was asked for
// meanwhile its document is fetched now; a Render seen for the first time needs no
// such request, it subscribes.
func (r *Reconciler) onRender(name multicluster.ClusterName, cl cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
	enqueue := mchandler.EnqueueRequestForObject(name, cl)
	return handler.TypedFuncs[client.Object, mcreconcile.Request]{
		CreateFunc: enqueue.Create, DeleteFunc: enqueue.Delete, GenericFunc: enqueue.Generic,
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[client.Object], q workqueue.TypedRateLimitingInterface[mcreconcile.Request]) {
			if asked := syncRequest(e.ObjectNew); asked != "" && asked != syncRequest(e.ObjectOld) {
				r.Feeds.Refresh(feed.Subscriber{Cluster: name.String(), Namespace: e.ObjectNew.GetNamespace(), Name: e.ObjectNew.GetName()})
			}
			enqueue.Update(ctx, e, q)
		},
	}
}

// syncRequest is the value of the annotation that asks for a fetch now.
func syncRequest(o client.Object) string {
	return o.GetAnnotations()[v1alpha1.AnnotationSyncRequestedAt]
}
