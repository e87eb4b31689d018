package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynamic-config.rs/fleet/hub/internal/syncserver"
)

// Deliveries counts how deliveries end.
type Deliveries struct {
	results *prometheus.CounterVec
	changes prometheus.Histogram
}

var (
	_ syncserver.Observer  = (*Deliveries)(nil)
	_ prometheus.Collector = (*Deliveries)(nil)
)

// NewDeliveries returns Deliveries without any.
func NewDeliveries() *Deliveries {
	return &Deliveries{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dynamicconfig_hub_delivery_results_total",
			Help: "Answers of spokes to deliveries, by their code.",
		}, []string{"result"}),
		changes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dynamicconfig_hub_change_to_applied_seconds",
			Help: "From the moment this replica learned of a document's new version until a spoke said that its target holds it, for each target.",
			// From a watch on a quiet hub to a cluster that comes back after a while.
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
	}
}

// Delivered is syncserver.Observer's.
func (d *Deliveries) Delivered(result string, changed time.Time) {
	d.results.WithLabelValues(result).Inc()
	if applied := result == "applied" || result == "unchanged"; applied && !changed.IsZero() {
		d.changes.Observe(time.Since(changed).Seconds())
	}
}

// Describe is prometheus.Collector's.
func (d *Deliveries) Describe(descriptions chan<- *prometheus.Desc) {
	d.results.Describe(descriptions)
	d.changes.Describe(descriptions)
}

// Collect is prometheus.Collector's.
func (d *Deliveries) Collect(out chan<- prometheus.Metric) {
	d.results.Collect(out)
	d.changes.Collect(out)
}
