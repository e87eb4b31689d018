package spokecluster

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// countsInterval is how often counts are looked at: a person's patience, and at a
// thousand changing clusters a hundred writes a second at most.
const countsInterval = 10 * time.Second

// Counted are the clusters connected to this replica.
type Counted interface {
	Clusters() []string
	Counts(cluster string) (fleet.Counts, bool)
}

// CountsWriter records counts; equal ones write nothing.
type CountsWriter interface {
	Counts(ctx context.Context, cluster string, counts v1alpha1.RenderCounts) error
}

// Counter reports the counts of connected clusters, each only when it changed.
type Counter struct {
	Fleet    Counted
	Registry CountsWriter
}

var _ manager.LeaderElectionRunnable = (*Counter)(nil)

// NeedLeaderElection is false: each replica reports for the clusters it holds.
func (*Counter) NeedLeaderElection() bool { return false }

// Start reports until the context ends.
func (c *Counter) Start(ctx context.Context) error {
	tick := time.NewTicker(countsInterval)
	defer tick.Stop()
	told := map[string]fleet.Counts{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			told = c.report(ctx, told)
		}
	}
}

// report writes what changed and returns what is told now.
func (c *Counter) report(ctx context.Context, told map[string]fleet.Counts) map[string]fleet.Counts {
	now := map[string]fleet.Counts{}
	for _, cluster := range c.Fleet.Clusters() {
		counts, ok := c.Fleet.Counts(cluster)
		if !ok {
			continue
		}
		if before, known := told[cluster]; known && before == counts {
			now[cluster] = counts
			continue
		}
		err := c.Registry.Counts(ctx, cluster, v1alpha1.RenderCounts{
			Total: int32(counts.Total), Ready: int32(counts.Ready), Failed: int32(counts.Failed),
		})
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Reporting counts failed", "cluster", cluster)
			continue
		}
		now[cluster] = counts
	}
	return now
}
