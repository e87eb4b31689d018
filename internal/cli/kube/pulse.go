package kube

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pulse is what the Leases of the hub's replicas say.
type Pulse struct {
	// Live counts the replicas whose Leases are not over.
	Live int
	// Last is the replica that renewed its Lease last, Renewed when; zero without any.
	Last    string
	Renewed time.Time
}

// HubPulse reads the Leases by which the hub's replicas say that they live. A replica that
// ends in order takes its Lease along.
func (c *Conn) HubPulse(ctx context.Context, namespace string, now time.Time) (Pulse, error) {
	list := &coordinationv1.LeaseList{}
	if err := c.List(ctx, list, client.InNamespace(namespace), client.HasLabels{HubReplicaLabel}); err != nil {
		return Pulse{}, err
	}
	var pulse Pulse
	for i := range list.Items {
		spec := &list.Items[i].Spec
		if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil || spec.HolderIdentity == nil {
			continue
		}
		if now.Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)) {
			pulse.Live++
		}
		if spec.RenewTime.After(pulse.Renewed) {
			pulse.Last, pulse.Renewed = *spec.HolderIdentity, spec.RenewTime.Time
		}
	}
	return pulse, nil
}

// Silence says that no replica lives although some did, and since when; empty where that
// is not known.
func (p Pulse) Silence(now time.Time) string {
	if p.Live > 0 || p.Last == "" {
		return ""
	}
	return fmt.Sprintf("no replica of the hub lives: %s was the last to renew its Lease, %s ago", p.Last, duration.HumanDuration(now.Sub(p.Renewed)))
}
