package spokecluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
)

// Sessions are the sessions on this replica.
type Sessions interface {
	End(cluster string, cause error)
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
		r.end(req.Name, removed, r.Mirrors.Forget, r.Feeds.ReleaseCluster)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if refusal := registry.Admitted(spoke); refusal != nil {
		r.end(req.Name, refusal, r.Feeds.ReleaseCluster)
	}
	return ctrl.Result{}, nil
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
