package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/requeue"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// workers is how many Renders are looked at in parallel. Each is at most three
// requests to the API server, so eight keep a cold start of thousands moving
// without crowding it.
const workers = 8

// The cache's indexes.
const (
	indexTarget    = "target"
	indexRenderUID = "render-uid"
)

// targetKinds are the kinds a target can have.
var targetKinds = []string{"Secret", "ConfigMap"}

// Upstream is told what the Renders ask for.
type Upstream interface {
	// Upsert tells what a Render asks for, when that is new.
	Upsert(*fleetv1.RenderSpec)
	// Ask is an Upsert that wants an answer in any case.
	Ask(*fleetv1.RenderSpec)
	// Remove tells that a Render is gone.
	Remove(*fleetv1.RenderRef)
}

// Reconciler keeps the Renders of the cluster.
type Reconciler struct {
	cache    cache.Cache
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	applier  *apply.Applier
	upstream Upstream

	entries    entries
	publishing sync.Mutex // held while one Render is read and told to the hub
	hub        hubView
	hubStates  chan bool
	troubles   troubles
	staleAfter time.Duration
	agent      *corev1.ObjectReference // what events about the agent itself are about

	// queue is the controller's own; started is closed when it is set.
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	started chan struct{}
}

// New returns a Reconciler that reads and writes through a manager. Renders say that
// the hub is lost when it is away for staleAfter; an event about agent says so too.
func New(mgr ctrl.Manager, staleAfter time.Duration, agent *corev1.ObjectReference) *Reconciler {
	return &Reconciler{
		cache: mgr.GetCache(), client: mgr.GetClient(), live: mgr.GetAPIReader(),
		recorder:   mgr.GetEventRecorder(v1alpha1.FieldManager),
		applier:    &apply.Applier{Client: mgr.GetClient(), Targets: mgr.GetCache(), Renders: mgr.GetCache()},
		entries:    entries{all: make(map[types.NamespacedName]*entry)},
		hubStates:  make(chan bool, 1),
		troubles:   troubles{moved: make(chan struct{}, 1)},
		staleAfter: staleAfter,
		agent:      agent,
		started:    make(chan struct{}),
	}
}

// SetupWithManager registers the controller; upstream is told from then on.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, upstream Upstream) error {
	r.upstream = upstream
	states.from(ctx, r.cache)
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	toRenders := handler.EnqueueRequestsFromMapFunc(r.rendersOf)
	return ctrl.NewControllerManagedBy(mgr).Named("render").
		// Our own writes of the status are no news.
		For(&v1alpha1.DynamicConfigRender{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesMetadata(&corev1.Secret{}, toRenders).
		WatchesMetadata(&corev1.ConfigMap{}, toRenders).
		WatchesRawSource(source.Func(r.takeQueue)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: requeue.Limiter[ctrl.Request]()}).
		Complete(r)
}

// takeQueue keeps the controller's queue, through which the hub's answers come.
func (r *Reconciler) takeQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.queue = queue
	close(r.started)
	return nil
}

// index makes the cache find Renders by target and targets by Render.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.DynamicConfigRender{}, indexTarget, func(o client.Object) []string {
		render, ok := o.(*v1alpha1.DynamicConfigRender)
		if !ok {
			return nil
		}
		return []string{targetKey(render.Spec.Target.Kind(), render.Spec.Target.Name())}
	})
	if err != nil {
		return fmt.Errorf("index Renders by target: %w", err)
	}
	for _, kind := range targetKinds {
		err := indexer.IndexField(ctx, apply.Metadata(kind), indexRenderUID, func(o client.Object) []string {
			return []string{o.GetLabels()[v1alpha1.LabelRenderUID]}
		})
		if err != nil {
			return fmt.Errorf("index %ss by Render: %w", kind, err)
		}
	}
	return nil
}

// targetKey is a target's key in the index of its namespace.
func targetKey(kind, name string) string { return kind + "/" + name }

// rendersOf maps a target to the Renders that name it, and to the one it bears
// the mark of: that may name another by now and has to let go.
func (r *Reconciler) rendersOf(ctx context.Context, target client.Object) []ctrl.Request {
	var naming v1alpha1.DynamicConfigRenderList
	kind := target.GetObjectKind().GroupVersionKind().Kind
	if err := r.cache.List(ctx, &naming, client.InNamespace(target.GetNamespace()),
		client.MatchingFields{indexTarget: targetKey(kind, target.GetName())}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Renders of a target not found", "target", targetKey(kind, target.GetName()))
	}
	requests := make([]ctrl.Request, 0, len(naming.Items)+1)
	for i := range naming.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&naming.Items[i])})
	}
	if name := target.GetAnnotations()[v1alpha1.AnnotationRender]; name != "" {
		requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{
			Namespace: target.GetNamespace(), Name: name,
		}})
	}
	return requests
}

// Prime tells upstream about every Render there is, so that the first inventory
// is whole. It returns when that is done and answers can be taken.
func (r *Reconciler) Prime(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.started:
	}
	if !r.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("caches did not sync: %w", context.Cause(ctx))
	}
	var all v1alpha1.DynamicConfigRenderList
	if err := r.cache.List(ctx, &all); err != nil {
		return fmt.Errorf("list Renders: %w", err)
	}
	for i := range all.Items {
		if err := r.publish(ctx, client.ObjectKeyFromObject(&all.Items[i])); err != nil {
			return err
		}
	}
	return nil
}
