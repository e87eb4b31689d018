package syncclient

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"dynamic-config.rs/fleet/internal/version"
)

var (
	connected = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dynamicconfig_spoke_connected",
		Help: "Whether the agent holds a session with a hub.",
	})
	unknownFrames = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dynamicconfig_spoke_unknown_frames_total",
		Help: "Frames of a hub that speaks of more than this agent knows.",
	})
	certificateExpiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dynamicconfig_spoke_certificate_expiry_timestamp_seconds",
		Help: "When the agent's client certificate ends.",
	})
)

func init() {
	metrics.Registry.MustRegister(connected, unknownFrames, certificateExpiry, version.Metric("spoke"))
}
