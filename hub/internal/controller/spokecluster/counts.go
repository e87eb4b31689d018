package spokecluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
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
	Report(cluster string) (fleet.Report, bool)
}

// CountsWriter records counts; equal ones write nothing.
type CountsWriter interface {
	Report(ctx context.Context, cluster string, all v1alpha1.RenderCounts, classes []v1alpha1.ClassRenderCounts) error
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
	told := map[string]fleet.Report{}
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
func (c *Counter) report(ctx context.Context, told map[string]fleet.Report) map[string]fleet.Report {
	now := map[string]fleet.Report{}
	for _, cluster := range c.Fleet.Clusters() {
		report, ok := c.Fleet.Report(cluster)
		if !ok {
			continue
		}
		before, known := told[cluster]
		if !known || before.Counts != report.Counts || !maps.Equal(before.Classes, report.Classes) {
			if err := c.Registry.Report(ctx, cluster, countsOf(report.Counts), classesOf(report.Classes)); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Reporting counts failed", "cluster", cluster)
				continue
			}
		}
		now[cluster] = report
	}
	return now
}

func countsOf(c fleet.Counts) v1alpha1.RenderCounts {
	return v1alpha1.RenderCounts{Total: int32(c.Total), Ready: int32(c.Ready), Failed: int32(c.Failed)}
}

// classesOf are the counts by class, of the classes with the most Renders, in an
// order that does not move.
func classesOf(counts map[string]fleet.Counts) []v1alpha1.ClassRenderCounts {
	classes := make([]v1alpha1.ClassRenderCounts, 0, len(counts))
	for class, c := range counts {
		classes = append(classes, v1alpha1.ClassRenderCounts{Class: class, RenderCounts: countsOf(c)})
	}
	slices.SortFunc(classes, func(a, b v1alpha1.ClassRenderCounts) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Class, b.Class))
	})
	return classes[:min(len(classes), v1alpha1.MaxCountedClasses)]
}
