package class

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// checkInterval is how often a store is asked: seldom enough to cost it nothing,
	// often enough that a person who looks sees today's state.
	checkInterval = time.Minute
	// checkTimeout bounds one look at a store that hangs.
	checkTimeout = 10 * time.Second
)

// Checker asks a store whether it is well.
type Checker interface {
	Check(ctx context.Context, src feed.Source) error
	// OnTurn has f called when the store of a class goes down or comes back.
	OnTurn(f func(class string))
}

// Leader says which replica looks at classes: their status has one writer, and their
// stores are asked once.
type Leader interface {
	Leading() bool
	// OnLead has begin called whenever this replica begins to lead from now on.
	OnLead(begin func(ctx context.Context))
}

// Reconciler writes the status of classes of one kind, on the leader.
type Reconciler struct {
	// Kind of the classes.
	Kind v1alpha1.ClassKind
	// Hub reads the hub's cache.
	Hub     client.Reader
	Status  client.SubResourceWriter
	Classes *classes.Resolver
	Feeds   Checker
	Leader  Leader

	// mu guards last. It is bounded by the number of classes.
	mu   sync.Mutex
	last map[classes.Ref]checked
}

// checked is the latest look at a class's store. Counts change often, and a store is
// not asked for each of them.
type checked struct {
	revision string
	at       time.Time
	err      error
}

// Reconcile looks at one class.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.Leader.Leading() {
		return ctrl.Result{}, nil // wakeAll comes when it does
	}
	object, status := r.blank()
	ref := classes.Ref{Kind: r.Kind, Namespace: req.Namespace, Name: req.Name}
	if err := r.Hub.Get(ctx, req.NamespacedName, object); err != nil {
		r.forget(ref)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := status.DeepCopy()
	renders, err := r.renders(ctx, ref.String())
	if err != nil {
		return ctrl.Result{}, err
	}
	ready, err := r.ready(ctx, ref)
	if err != nil && !errors.Is(err, feed.ErrBusy) {
		return ctrl.Result{}, err
	}
	if err == nil {
		ready.ObservedGeneration = object.GetGeneration()
		apimeta.SetStatusCondition(&status.Conditions, ready)
		status.ObservedGeneration = object.GetGeneration()
	}
	status.Renders = &renders
	if !equality.Semantic.DeepEqual(before, status) {
		if err := r.Status.Update(ctx, object); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: checkInterval/2 + rand.N(checkInterval)}, nil //nolint:gosec // G404: spreads load, guards nothing
}

// blank is an object of the reconciler's kind, and its status.
func (r *Reconciler) blank() (client.Object, *v1alpha1.ClassStatus) {
	if r.Kind == v1alpha1.ClassKindCluster {
		o := &v1alpha1.ClusterDynamicConfigClass{}
		return o, &o.Status
	}
	o := &v1alpha1.DynamicConfigClass{}
	return o, &o.Status
}

// ready is the Ready condition; feed.ErrBusy when the store has no room for the
// question. Another error is one of the hub's cluster, to be tried again.
func (r *Reconciler) ready(ctx context.Context, ref classes.Ref) (metav1.Condition, error) {
	class, err := r.Classes.Find(ctx, ref)
	if err != nil {
		return metav1.Condition{}, err
	}
	for _, pattern := range class.Policy.Keys {
		if err := policy.CheckPattern(pattern); err != nil {
			return notReady(v1alpha1.ReasonClassInvalid, err.Error()), nil
		}
	}
	source, err := r.Classes.Source(ctx, class)
	if err == nil {
		err = r.check(ctx, ref, source)
	}
	if unusable, ok := errors.AsType[*store.Error](err); ok {
		message := unusable.Error()
		if missing, ok := errors.AsType[*classes.MissingError](err); ok {
			message = missing.ForOwner()
		}
		return notReady(unusable.Reason, message), nil
	}
	if err != nil {
		return metav1.Condition{}, err
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonClassReady,
		Message: "the credential is there and the store answers",
	}, nil
}

// check asks the store, unless it was asked lately with the same credential.
func (r *Reconciler) check(ctx context.Context, ref classes.Ref, source feed.Source) error {
	r.mu.Lock()
	last := r.last[ref]
	r.mu.Unlock()
	if last.revision == source.Revision && time.Since(last.at) < checkInterval/2 {
		return last.err
	}
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := r.Feeds.Check(limited, source)
	if errors.Is(err, feed.ErrBusy) {
		return err // and look again when there is a reason to
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[classes.Ref]checked{}
	}
	r.last[ref] = checked{revision: source.Revision, at: time.Now(), err: err}
	return err
}

func (r *Reconciler) forget(ref classes.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, ref)
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// renders sums up what the SpokeClusters count for a class.
func (r *Reconciler) renders(ctx context.Context, id string) (v1alpha1.RenderCounts, error) {
	var sum v1alpha1.RenderCounts
	var clusters v1alpha1.SpokeClusterList
	if err := r.Hub.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return sum, err
	}
	for i := range clusters.Items {
		for _, c := range clusters.Items[i].Status.Classes {
			if c.Class == id {
				sum.Total += c.Total
				sum.Ready += c.Ready
				sum.Failed += c.Failed
			}
		}
	}
	return sum, nil
}
