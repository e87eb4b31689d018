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

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/requeue"
)

// handover is how long an agent's older session may serve here while its newer one
// opens elsewhere: as long as an agent waits for a welcome. The agent ends it.
const handover = time.Minute

// Sessions are the sessions on this replica.
type Sessions interface {
	End(cluster string, cause error)
	Sessions(cluster string) []*fleet.Session
}

// Registry records sessions that the status takes for over.
type Registry interface {
	ReopenSession(ctx context.Context, cluster string, s v1alpha1.SpokeSession) (epoch int64, err error)
	CloseSession(ctx context.Context, cluster string, epoch int64) error
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
// have a newer one on another replica.
type Reconciler struct {
	// Hub reads SpokeClusters from the hub's cache.
	Hub      client.Reader
	Sessions Sessions
	Mirrors  Mirrors
	Feeds    Feeds
	Registry Registry
	// Audit remembers decisions about the cluster; nil for none.
	Audit *audit.Log
	// Replica is this hub, as sessions name it.
	Replica string
}

// SetUp registers the controller with the hub's manager, on every replica.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("spokecluster").
		For(&v1alpha1.SpokeCluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, sessionChanged))).
		WithOptions(controller.Options{RateLimiter: requeue.Limiter[ctrl.Request](), NeedLeaderElection: new(false), RecoverPanic: new(true)}).
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
		return ctrl.Result{}, r.reclaim(ctx, spoke)
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

// supersede ends the sessions here that are older than the cluster's latest. It
// returns when to look again at those that their own agent is about to end.
func (r *Reconciler) supersede(c *v1alpha1.SpokeCluster) (again time.Duration) {
	latest := c.Status.Session
	if latest == nil {
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

// reclaim records the session that serves the cluster here although its status says
// that there is none: this replica could not be heard of for a while, or the agent's
// next session came to nothing. The session takes the next epoch.
func (r *Reconciler) reclaim(ctx context.Context, c *v1alpha1.SpokeCluster) error {
	open := r.Sessions.Sessions(c.Name)
	if len(open) == 0 || open[0].Over() {
		return nil
	}
	session := v1alpha1.SpokeSession{Hub: r.Replica, Instance: open[0].Instance()}
	if latest := c.Status.Session; latest != nil && open[0].SameAgent(latest.Instance) {
		session.AgentVersion = latest.AgentVersion
	}
	epoch, err := r.Registry.ReopenSession(ctx, c.Name, session)
	if err != nil || epoch == 0 {
		return err
	}
	if !open[0].Renumber(epoch) {
		return r.Registry.CloseSession(ctx, c.Name, epoch)
	}
	return nil
}
