package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var applyTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "dynamicconfig_spoke_apply_total",
	Help: "Deliveries by outcome: Applied, or the reason of the Applied condition.",
}, []string{"reason"})

func init() { metrics.Registry.MustRegister(applyTotal) }
