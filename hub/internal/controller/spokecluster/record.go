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
	if registry.Admitted(spoke) != nil || registry.Connected(spoke) {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return ctrl.Result{}, r.reclaim(ctx, spoke)
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
