package spokecluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
)

// lostAfter is how long a session of this replica is believed to come back that its
// status has and the replica has not, as after a crash: twice the 15 s in which an
// agent's first attempt falls.
const lostAfter = 30 * time.Second

// Sessions are the sessions on this replica.
type Sessions interface {
	End(cluster string, cause error)
	Connected(cluster string) bool
}

// Registry keeps the conditions of SpokeClusters.
type Registry interface {
	Look(ctx context.Context, cluster string, lost bool) error
}

// Mirrors are the inventories on this replica.
type Mirrors interface {
	Forget(cluster string)
}

// Feeds are the documents that clusters wait for.
type Feeds interface {
	ReleaseCluster(cluster string)
}

// Reconciler ends the sessions of clusters that may not have one.
type Reconciler struct {
	// Hub reads SpokeClusters from the hub's cache.
	Hub      client.Reader
	Sessions Sessions
	Mirrors  Mirrors
	Feeds    Feeds
	Registry Registry
	// Audit remembers decisions about the cluster; nil for none.
	Audit *audit.Log
	// Replica is this hub, as sessions name it, and Started when it started.
	Replica string
	Started time.Time
}

// SetUp registers the controller with the hub's manager, on every replica.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("spokecluster").
		For(&v1alpha1.SpokeCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{NeedLeaderElection: new(false), RecoverPanic: new(true)}).
		Complete(r)
}

// Reconcile looks at one SpokeCluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	spoke := &v1alpha1.SpokeCluster{}
	err := r.Hub.Get(ctx, req.NamespacedName, spoke)
	switch {
	case apierrors.IsNotFound(err):
		removed := &identity.Error{Reason: identity.ReasonUnknownCluster, Message: "the SpokeCluster was removed"}
		r.end(req.Name, removed, r.Mirrors.Forget, r.Feeds.ReleaseCluster, r.Audit.ForgetCluster)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if refusal := registry.Admitted(spoke); refusal != nil {
		r.end(req.Name, refusal, r.Feeds.ReleaseCluster)
	}
	if !spoke.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its conditions go with it
	}
	wait := r.missing(spoke)
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, r.Registry.Look(ctx, req.Name, false)
	}
	return ctrl.Result{}, r.Registry.Look(ctx, req.Name, wait < 0)
}

// missing says how long to wait for a session that this replica has by the status and
// not in truth: negative when that was long enough, 0 when nothing is missing.
func (r *Reconciler) missing(c *v1alpha1.SpokeCluster) time.Duration {
	session := c.Status.Session
	if session == nil || session.Hub != r.Replica || r.Sessions.Connected(c.Name) ||
		!apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionConnected) {
		return 0
	}
	since := r.Started
	if session.ConnectedAt != nil && session.ConnectedAt.After(since) {
		since = session.ConnectedAt.Time
	}
	if left := lostAfter - time.Since(since); left > 0 {
		return left
	}
	return -1
}

// end ends a cluster's session and lets go of what the cluster has here. One that
// opened meanwhile is ended too: it would go on without what was let go of.
func (r *Reconciler) end(cluster string, refusal error, letGo ...func(cluster string)) {
	r.Sessions.End(cluster, refusal)
	for _, do := range letGo {
		do(cluster)
	}
	r.Sessions.End(cluster, refusal)
}
