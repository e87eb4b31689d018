package spokecluster

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// keepInterval is how soon the conditions of SpokeClusters say what is so.
const keepInterval = 5 * time.Second

// Leader says which replica does what must have one writer.
type Leader interface {
	Leading() bool
}

// Replicas know which of them are alive.
type Replicas interface {
	// Look brings that up to date.
	Look(ctx context.Context) error
	// Over says whether a session is known to be over.
	Over(s *v1alpha1.SpokeSession) bool
}

// Conditions keeps the conditions of SpokeClusters.
type Conditions interface {
	Due(c *v1alpha1.SpokeCluster, lost int64) bool
	Look(ctx context.Context, cluster string, lost int64) error
}

// Keeper keeps, on the leader, the conditions of SpokeClusters: what their specs say,
// sessions that died with their replica, agents that alternate no more.
type Keeper struct {
	// Hub reads SpokeClusters from the hub's cache.
	Hub      client.Reader
	Leader   Leader
	Replicas Replicas
	Registry Conditions
}

var _ manager.LeaderElectionRunnable = (*Keeper)(nil)

// NeedLeaderElection is false: the Keeper asks by itself, since the lead comes and goes.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start looks at an interval, while this replica leads, until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !k.Leader.Leading() {
			continue
		}
		if err := k.Look(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Keeping the conditions of SpokeClusters failed")
		}
	}
}

// Look looks at every SpokeCluster once, and writes only what is to change.
func (k *Keeper) Look(ctx context.Context) error {
	if err := k.Replicas.Look(ctx); err != nil {
		return err // and believe that all are alive
	}
	var all v1alpha1.SpokeClusterList
	if err := k.Hub.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var failed []error
	for i := range all.Items {
		failed = append(failed, k.keep(ctx, &all.Items[i]))
	}
	return errors.Join(failed...)
}

// keep looks at one SpokeCluster.
func (k *Keeper) keep(ctx context.Context, c *v1alpha1.SpokeCluster) error {
	if !c.DeletionTimestamp.IsZero() {
		return nil // its conditions go with it
	}
	var lost int64
	if s := c.Status.Session; s != nil && k.Replicas.Over(s) {
		lost = s.Epoch
	}
	if !k.Registry.Due(c, lost) {
		return nil
	}
	return k.Registry.Look(ctx, c.Name, lost)
}
