package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	applyTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dynamicconfig_spoke_apply_total",
		Help: "Deliveries by outcome: Applied, or the reason of the Applied condition.",
	}, []string{"reason"})
	hubLost = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dynamicconfig_spoke_hub_lost",
		Help: "Whether there was no session with a hub for longer than --stale-after.",
	})
)

func init() { metrics.Registry.MustRegister(applyTotal, hubLost) }
