package class

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/internal/requeue"
)

// workers that look at classes at once: ten stores that hang do not keep the others
// from being looked at.
const workers = 16

// countsDelay gathers the counts of many clusters: each sum goes over all of them, and a
// thousand that connect together count together.
const countsDelay = time.Second

// SetUp registers the controller with the hub's manager, on every replica: the leader
// looks, and the others are ready to. The manager's cache needs classes.IndexSecrets.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	object, _ := r.blank()
	return ctrl.NewControllerManagedBy(mgr).Named("class-"+strings.ToLower(string(r.Kind))).
		For(object, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&v1alpha1.SpokeCluster{}, r.counted()).
		WatchesRawSource(source.Func(r.wakeAll)).
		WatchesRawSource(source.Func(r.wakeTurned)).
		WithOptions(controller.Options{
			RateLimiter: requeue.Limiter[ctrl.Request](), MaxConcurrentReconciles: workers,
			NeedLeaderElection: new(false), RecoverPanic: new(true),
		}).
		Complete(r)
}

// wakeAll has every class looked at when this replica begins to lead.
func (r *Reconciler) wakeAll(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.Leader.OnLead(func(ctx context.Context) {
		all, err := r.Classes.All(ctx)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing classes failed")
			return
		}
		for _, c := range all {
			if c.Ref.Kind == r.Kind {
				queue.Add(request(c.Ref))
			}
		}
	})
	return nil
}

// wakeTurned has a class looked at whose store went down or came back, as this replica
// sees it, whenever it was asked last.
func (r *Reconciler) wakeTurned(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.Feeds.OnTurn(func(class string) {
		if req, ok := r.requestOf(class); ok {
			r.forget(classes.Ref{Kind: r.Kind, Namespace: req.Namespace, Name: req.Name})
			queue.Add(req)
		}
	})
	return nil
}

// requestOf reads Kind/name or Kind/namespace/name; false for the other kind.
func (r *Reconciler) requestOf(class string) (ctrl.Request, bool) {
	kind, name, _ := strings.Cut(class, "/")
	namespace, local, namespaced := strings.Cut(name, "/")
	if !namespaced {
		namespace, local = "", name
	}
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: local}}, kind == string(r.Kind)
}

func request(ref classes.Ref) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}
}

// ofSecret are the classes whose credential or CA is in a Secret.
func (r *Reconciler) ofSecret(ctx context.Context, o client.Object) []ctrl.Request {
	using, err := r.Classes.UsingSecret(ctx, o.GetNamespace(), o.GetName())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing classes failed")
		return nil
	}
	var requests []ctrl.Request
	for _, c := range using {
		if c.Ref.Kind == r.Kind {
			requests = append(requests, request(c.Ref))
		}
	}
	return requests
}

// counted has the classes looked at, a little later, for which a cluster counts
// something else than before.
func (r *Reconciler) counted() handler.EventHandler {
	later := func(queue workqueue.TypedRateLimitingInterface[ctrl.Request], clusters ...client.Object) {
		for _, o := range clusters {
			for _, c := range countsOf(o) {
				if req, ok := r.requestOf(c.Class); ok {
					queue.AddAfter(req, countsDelay)
				}
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			later(queue, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			if !slices.Equal(countsOf(e.ObjectOld), countsOf(e.ObjectNew)) {
				later(queue, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			later(queue, e.Object)
		},
	}
}

// countsOf is what a cluster counts.
func countsOf(o client.Object) []v1alpha1.ClassRenderCounts {
	if spoke, ok := o.(*v1alpha1.SpokeCluster); ok {
		return spoke.Status.Classes
	}
	return nil
}
