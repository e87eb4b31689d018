package hub

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"dynamic-config.rs/fleet/hub/internal/metrics"
	"dynamic-config.rs/fleet/internal/version"
)

// observers count what happens inside.
type observers struct {
	stores     *metrics.Stores
	deliveries *metrics.Deliveries
}

// registerMetrics exposes what a hub holds.
func registerMetrics(all []prometheus.Collector) error {
	for _, c := range all {
		if err := ctrlmetrics.Registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// collectors are the hub's metrics. Their names are API: docs/metrics.md.
func collectors(ctx context.Context, hub client.Reader, p parts, s *serving) []prometheus.Collector {
	return append(ownNumbers(p, s),
		metrics.NewObjects(ctx, hub, p.stores),
		metrics.NewSessions(p.clusters, s.sessions.Certificates),
		p.deliveries,
	)
}

// ownNumbers are those that the parts of a hub have anyway.
func ownNumbers(p parts, s *serving) []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		version.Metric("hub"),
		gauge("dynamicconfig_hub_sessions", "Spokes that hold a session with this replica.",
			func() float64 { return float64(len(p.clusters.Clusters())) }),
		counter("dynamicconfig_hub_deliveries_total", "Contents of a target that this replica sent to a spoke.",
			func() float64 { return float64(p.clusters.Deliveries()) }),
		counter("dynamicconfig_hub_session_takeovers_total", "Sessions with this replica that an agent opened while another one of its cluster held one.",
			func() float64 { return float64(p.registry.Takeovers()) }),
		counter("dynamicconfig_hub_sessions_moved_total", "Sessions that this replica asked to move since it held more than its share.",
			func() float64 { return float64(p.peers.balancer.Moved()) }),
		counter("dynamicconfig_hub_frames_ignored_total", "Frames of spokes that this replica does not know or could not use.",
			func() float64 { return float64(s.sessions.Ignored()) }),
		gauge("dynamicconfig_hub_ca_expiry_timestamp_seconds", "When the root that signs ends, in Unix seconds.",
			func() float64 { return float64(p.secrets.Authority.Current().NotAfter().Unix()) }),
		gauge("dynamicconfig_hub_feeds", "Documents that this replica follows.",
			func() float64 { return float64(p.feeds.Stats().Feeds) }),
		gauge("dynamicconfig_hub_feed_subscribers", "Renders that wait for those documents.",
			func() float64 { return float64(p.feeds.Stats().Subscribers) }),
		gauge("dynamicconfig_hub_document_bytes", "Bytes of documents, and of what was rendered of them, that this replica holds.",
			func() float64 { return float64(p.feeds.Stats().Bytes) }),
		counter("dynamicconfig_hub_store_fetches_total", "Fetches of a document from a store.",
			func() float64 { return float64(p.feeds.Stats().Fetches) }),
		counter("dynamicconfig_hub_store_watches_total", "Waits for a document's next version that were begun at a store.",
			func() float64 { return float64(p.feeds.Stats().Watches) }),
		counter("dynamicconfig_hub_store_failures_total", "Fetches and watches that failed.",
			func() float64 { return float64(p.feeds.Stats().Failures) }),
		gauge("dynamicconfig_hub_stores_down", "Classes whose store does not answer this replica and is only probed.",
			func() float64 { return float64(p.feeds.Stats().Down) }),
	}
}
