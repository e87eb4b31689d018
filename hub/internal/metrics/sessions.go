package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// Sessions shows what the sessions of this replica hold when it is asked.
type Sessions struct {
	fleet        *fleet.Fleet
	certificates func() map[string]time.Time

	renders, expiry *prometheus.Desc
}

var _ prometheus.Collector = (*Sessions)(nil)

// NewSessions returns Sessions of a fleet; certificates are the ends of the
// certificates that connected clusters showed.
func NewSessions(clusters *fleet.Fleet, certificates func() map[string]time.Time) *Sessions {
	return &Sessions{
		fleet: clusters, certificates: certificates,
		renders: prometheus.NewDesc("dynamicconfig_hub_renders",
			"Renders in the inventories of the spokes that hold a session with this replica, by state: ready, failed or waiting.", []string{"state"}, nil),
		expiry: prometheus.NewDesc("dynamicconfig_hub_spoke_certificate_expiry_timestamp_seconds",
			"When the certificate ends that a cluster opened its session with this replica with.", []string{"cluster"}, nil),
	}
}

// Describe is prometheus.Collector's.
func (s *Sessions) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- s.renders
	descriptions <- s.expiry
}

// Collect is prometheus.Collector's.
func (s *Sessions) Collect(out chan<- prometheus.Metric) {
	var all fleet.Counts
	for _, cluster := range s.fleet.Clusters() {
		report, _ := s.fleet.Report(cluster)
		all.Total += report.Total
		all.Ready += report.Ready
		all.Failed += report.Failed
	}
	out <- gauge(s.renders, float64(all.Ready), "ready")
	out <- gauge(s.renders, float64(all.Failed), "failed")
	out <- gauge(s.renders, float64(all.Total-all.Ready-all.Failed), "waiting")
	for cluster, notAfter := range s.certificates() {
		out <- gauge(s.expiry, float64(notAfter.Unix()), cluster)
	}
}
