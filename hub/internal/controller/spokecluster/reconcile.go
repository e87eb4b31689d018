package spokecluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/requeue"
)

// handover is how long an agent's older session may serve here while its newer one
// opens elsewhere: as long as an agent waits for a welcome. The agent ends it. It is also
// how long a session that is recorded may be on its way to be held.
const handover = time.Minute

// Sessions are the sessions on this replica.
type Sessions interface {
	End(cluster string, cause error)
	Sessions(cluster string) []*fleet.Session
}

// Mirrors are the inventories on this replica.
type Mirrors interface {
	Forget(cluster string)
}

// Feeds are the documents that clusters wait for.
type Feeds interface {
	ReleaseCluster(cluster string)
}

// Reconciler ends the sessions of this replica that its clusters may not have, or that
// have a newer one on another replica. It asks nobody and waits for nobody: what the API
// server is slow with must not hold up an end.
type Reconciler struct {
	// Hub reads SpokeClusters from the hub's cache.
	Hub      client.Reader
	Sessions Sessions
	Mirrors  Mirrors
	Feeds    Feeds
	// Audit remembers decisions about the cluster; nil for none.
	Audit *audit.Log
	// Replica is this hub, as sessions name it.
	Replica string
}

// SetUp registers the controller with the hub's manager, on every replica.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error { return setUp(mgr, "spokecluster", 1, r) }

// setUp registers a controller that looks at a SpokeCluster when its spec or its session
// changed.
func setUp(mgr ctrl.Manager, name string, workers int, r reconcile.Reconciler) error {
	return ctrl.NewControllerManagedBy(mgr).Named(name).
		For(&v1alpha1.SpokeCluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, sessionChanged))).
		WithOptions(controller.Options{
			RateLimiter: requeue.Limiter[ctrl.Request](), MaxConcurrentReconciles: workers,
			NeedLeaderElection: new(false), RecoverPanic: new(true),
		}).
		Complete(r)
}

// sessionChanged lets through what says something new of a cluster's session.
var sessionChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*v1alpha1.SpokeCluster)
	after, okAfter := e.ObjectNew.(*v1alpha1.SpokeCluster)
	return okBefore && okAfter && (epochOf(before) != epochOf(after) || registry.Connected(before) != registry.Connected(after))
}}

func epochOf(c *v1alpha1.SpokeCluster) int64 {
	if c.Status.Session == nil {
		return 0
	}
	return c.Status.Session.Epoch
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
		return ctrl.Result{}, nil
	}
	if !registry.Connected(spoke) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: r.supersede(spoke)}, nil
}

// end ends a cluster's sessions and lets go of what the cluster has here. One that
// opened meanwhile is ended too: it would go on without what was let go of.
func (r *Reconciler) end(cluster string, refusal error, letGo ...func(cluster string)) {
	r.Sessions.End(cluster, refusal)
	for _, do := range letGo {
		do(cluster)
	}
	r.Sessions.End(cluster, refusal)
}

// supersede ends the sessions here that are older than the cluster's latest on another
// replica; those of one replica are in order by themselves. It returns when to look again
// at those that their own agent is about to end.
func (r *Reconciler) supersede(c *v1alpha1.SpokeCluster) (again time.Duration) {
	latest := c.Status.Session
	if latest == nil || latest.Hub == r.Replica {
		return 0
	}
	for _, s := range r.Sessions.Sessions(c.Name) {
		if s.Epoch() >= latest.Epoch {
			continue
		}
		if left := handover - sinceOpened(latest); s.SameAgent(latest.Instance) && left > 0 {
			again = left
			continue
		}
		s.End(fleet.ErrSuperseded)
	}
	return again
}

func sinceOpened(s *v1alpha1.SpokeSession) time.Duration {
	if s.ConnectedAt == nil {
		return handover
	}
	return time.Since(s.ConnectedAt.Time)
}
