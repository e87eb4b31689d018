package spokecluster

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
)

const (
	// recordWorkers are how many sessions are recorded at once: after an outage of the API
	// server all of a replica's may have to be, and few of those that hang hold up the rest.
	recordWorkers = 8
	// recordTimeout bounds what is asked of the API server about one of them.
	recordTimeout = 5 * time.Second
)

// Registry records sessions.
type Registry interface {
	ReopenSession(ctx context.Context, cluster string, s v1alpha1.SpokeSession) (epoch int64, err error)
	CloseSession(ctx context.Context, cluster string, epoch int64) error
}

// Recorder brings what SpokeClusters say of sessions up to what this replica holds. It
// waits for the API server, so it is a controller beside the one that ends sessions.
type Recorder struct {
	// Hub reads SpokeClusters from the hub's cache.
	Hub      client.Reader
	Sessions Sessions
	Registry Registry
	// Replica is this hub, as sessions name it.
	Replica string
	// Began is when this process did: the sessions of an earlier one of the same name are
	// over, but their spokes are believed to come back.
	Began time.Time
}

// SetUp registers the controller with the hub's manager, on every replica.
func (r *Recorder) SetUp(mgr ctrl.Manager) error {
	return setUp(mgr, "spokecluster-record", recordWorkers, r)
}

// Reconcile looks at one SpokeCluster.
func (r *Recorder) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	spoke := &v1alpha1.SpokeCluster{}
	if err := r.Hub.Get(ctx, req.NamespacedName, spoke); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if registry.Admitted(spoke) != nil {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if !registry.Connected(spoke) {
		return ctrl.Result{}, r.reclaim(ctx, spoke)
	}
	again, lost := r.lost(spoke)
	if lost {
		return ctrl.Result{}, r.Registry.CloseSession(ctx, spoke.Name, spoke.Status.Session.Epoch)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// lost says whether the session that the status knows is this replica's and not held here:
// its end could not be recorded, or its opening was recorded and came to nothing. One that
// may still be opening is not lost. Else it returns when to look again, also at one that is
// held: nothing tells of an end that is not recorded.
//
// A session that is taken for lost and is held after all is no loss: the write is seen by
// the registry's check, which comes after the session is held, or comes back here as an
// event and is reclaimed.
func (r *Recorder) lost(c *v1alpha1.SpokeCluster) (again time.Duration, lost bool) {
	latest := c.Status.Session
	if latest == nil || latest.Hub != r.Replica {
		return 0, false
	}
	for _, s := range r.Sessions.Sessions(c.Name) {
		if s.Epoch() >= latest.Epoch {
			return handover, false
		}
	}
	left := handover - min(sinceOpened(latest), time.Since(r.Began))
	return left, left <= 0
}

// reclaim records the session that serves the cluster here although its status says
// that there is none: this replica could not be heard of for a while, or the agent's
// next session came to nothing. The session takes the next epoch.
func (r *Recorder) reclaim(ctx context.Context, c *v1alpha1.SpokeCluster) error {
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
