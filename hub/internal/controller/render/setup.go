package render

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/internal/requeue"
)

// classIndex is the field that Renders are indexed by: their class.
const classIndex = "class"

// workers that render at once: rendering is CPU-bound, and a hub has a few cores.
const workers = 8

// Wakes hands the wake-ups of feeds to the controller's queue. Until the controller
// runs there is nobody to wake.
type Wakes struct {
	// mu guards queue.
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]
}

// Start keeps the queue; the controller calls it.
func (w *Wakes) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// Wake queues one Render. It does not block.
func (w *Wakes) Wake(sub feed.Subscriber) {
	w.mu.Lock()
	queue := w.queue
	w.mu.Unlock()
	if queue != nil {
		queue.Add(request(sub.Cluster, sub.Namespace, sub.Name))
	}
}

// SetUp registers the controller with the manager. It runs on every replica, for
// the spokes that are connected to it. The cache of the hub's own cluster needs
// classes.IndexSecrets.
func (r *Reconciler) SetUp(ctx context.Context, mgr mcmanager.Manager, wakes *Wakes) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.DynamicConfigRender{}, classIndex, indexClass); err != nil {
		return err
	}
	onHub := []mcbuilder.WatchesOption{mcbuilder.WithEngageWithLocalCluster(true), mcbuilder.WithEngageWithProviderClusters(false)}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return mcbuilder.ControllerManagedBy(mgr).Named("render").
		Watches(&v1alpha1.DynamicConfigRender{}, mchandler.EnqueueRequestForObject).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{
			NewQueue: mirror.NewFairQueue, RateLimiter: requeue.Limiter[mcreconcile.Request](), MaxConcurrentReconciles: workers,
			NeedLeaderElection: new(false), RecoverPanic: new(true),
		}).
		WatchesRawSource(wakes).
		Watches(&v1alpha1.ClusterDynamicConfigClass{}, fanOut(r.ofClass), append(onHub, mcbuilder.WithPredicates(specChanged))...).
		Watches(&v1alpha1.DynamicConfigClass{}, fanOut(r.ofClass), append(onHub, mcbuilder.WithPredicates(specChanged))...).
		Watches(&v1alpha1.SpokeCluster{}, fanOut(r.ofCluster), append(onHub, mcbuilder.WithPredicates(specChanged))...).
		Watches(secret, fanOut(r.ofSecret), append(onHub, mcbuilder.WithPredicates(predicate.ResourceVersionChangedPredicate{}))...).
		Complete(r)
}

// specChanged lets through what a Render may depend on: spec and labels, not status.
var specChanged = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})

// fanOut lifts a map function to a handler for the hub's own cluster.
func fanOut(m handler.TypedMapFunc[client.Object, mcreconcile.Request]) mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request] {
	return func(multicluster.ClusterName, cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
		return mchandler.TypedEnqueueRequestsFromMapFuncWithClusterPreservation[client.Object, mcreconcile.Request](m)
	}
}

func indexClass(o client.Object) []string {
	render, ok := o.(*v1alpha1.DynamicConfigRender)
	if !ok {
		return nil
	}
	return []string{classes.RefOf(render).String()}
}

// ofClass are the Renders that use a class.
func (r *Reconciler) ofClass(ctx context.Context, o client.Object) []mcreconcile.Request {
	ref := classes.Ref{Kind: v1alpha1.ClassKindCluster, Name: o.GetName()}
	if _, namespaced := o.(*v1alpha1.DynamicConfigClass); namespaced {
		ref = classes.Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	return r.using(ctx, ref)
}

// ofSecret are the Renders that use a class whose credential or CA is in a Secret.
func (r *Reconciler) ofSecret(ctx context.Context, o client.Object) []mcreconcile.Request {
	using, err := r.Classes.UsingSecret(ctx, o.GetNamespace(), o.GetName())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing classes failed")
		return nil
	}
	var requests []mcreconcile.Request
	for _, class := range using {
		requests = append(requests, r.using(ctx, class.Ref)...)
	}
	return requests
}

// ofCluster are all Renders of a spoke.
func (r *Reconciler) ofCluster(ctx context.Context, o client.Object) []mcreconcile.Request {
	return r.list(ctx, o.GetName())
}

// using are the Renders of all spokes that use a class.
func (r *Reconciler) using(ctx context.Context, ref classes.Ref) []mcreconcile.Request {
	var requests []mcreconcile.Request
	for _, name := range r.Clusters.Names() {
		requests = append(requests, r.list(ctx, name, client.MatchingFields{classIndex: ref.String()})...)
	}
	return requests
}

func (r *Reconciler) list(ctx context.Context, name string, opts ...client.ListOption) []mcreconcile.Request {
	cl, err := r.Clusters.Get(ctx, multicluster.ClusterName(name))
	if err != nil {
		return nil // it left meanwhile
	}
	var renders v1alpha1.DynamicConfigRenderList
	if err := cl.GetCache().List(ctx, &renders, opts...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing a mirror failed", "cluster", name)
		return nil
	}
	requests := make([]mcreconcile.Request, 0, len(renders.Items))
	for i := range renders.Items {
		requests = append(requests, request(name, renders.Items[i].Namespace, renders.Items[i].Name))
	}
	return requests
}

func request(clusterName, namespace, name string) mcreconcile.Request {
	return mcreconcile.Request{
		ClusterName: multicluster.ClusterName(clusterName),
		Request:     ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}},
	}
}
