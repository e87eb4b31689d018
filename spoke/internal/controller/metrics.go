package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// The names are API: docs/metrics.md.
var (
	rendersTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dynamicconfig_renders_total",
		Help: "Contents that targets were made to hold.",
	})
	renderFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dynamicconfig_render_failures_total",
		Help: "Answers of the hub that held no content, and contents that were not applied, by reason.",
	}, []string{"reason"})
	lastRender = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dynamicconfig_last_render_timestamp_seconds",
		Help: "When a target was last made to hold a content; 0 before.",
	})
	applyTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dynamicconfig_spoke_apply_total",
		Help: "Deliveries by outcome: Applied, or the reason of the Applied condition.",
	}, []string{"reason"})
	applySeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "dynamicconfig_spoke_apply_duration_seconds",
		Help: "How long it took to apply a delivery.",
		// One request to an API server at rest, up to three under load.
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
	})
	hubLost = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dynamicconfig_spoke_hub_lost",
		Help: "Whether there was no session with a hub for longer than --stale-after.",
	})
	states = &renderStates{ready: prometheus.NewDesc("dynamicconfig_render_ready",
		"Whether a Render is ready. There is none for a Render that has no answer yet.",
		[]string{"render_namespace", "render"}, nil)}
)

func init() {
	metrics.Registry.MustRegister(rendersTotal, renderFailures, lastRender, applyTotal, applySeconds, hubLost, states)
}

// maxReasons bounds the reasons that are told apart: more than there are, since a newer
// hub may send others, and no more than a hub that sends nonsense may cost.
const maxReasons = 64

// listTimeout bounds how long a scrape waits for a cache that is not filled yet.
const listTimeout = time.Second

// failureReasons are those that renderFailures has.
var failureReasons struct {
	mu    sync.Mutex // guards known
	known map[string]bool
}

// countFailure counts what kept a Render from its content.
func countFailure(reason string) {
	failureReasons.mu.Lock()
	defer failureReasons.mu.Unlock()
	if failureReasons.known == nil {
		failureReasons.known = map[string]bool{}
	}
	if !failureReasons.known[reason] && len(failureReasons.known) >= maxReasons {
		reason = "Other"
	}
	failureReasons.known[reason] = true
	renderFailures.WithLabelValues(reason).Inc()
}

// renderStates shows the state of each Render there is, as the cache has it when it is
// asked: a series ends with its Render.
type renderStates struct {
	ready *prometheus.Desc
	// list lists the Renders; the latest agent of the process sets it.
	list atomic.Pointer[func() ([]v1alpha1.DynamicConfigRender, error)]
}

// from has the Renders listed from a cache until the context ends.
func (s *renderStates) from(ctx context.Context, cache client.Reader) {
	list := func() ([]v1alpha1.DynamicConfigRender, error) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		var all v1alpha1.DynamicConfigRenderList
		err := cache.List(ctx, &all, client.UnsafeDisableDeepCopy)
		return all.Items, err
	}
	s.list.Store(&list)
}

// Describe is prometheus.Collector's.
func (s *renderStates) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- s.ready }

// Collect is prometheus.Collector's.
func (s *renderStates) Collect(out chan<- prometheus.Metric) {
	list := s.list.Load()
	if list == nil {
		return
	}
	all, err := (*list)()
	if err != nil {
		return // the agent starts or ends
	}
	for i := range all {
		render := &all[i]
		ready := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			continue
		}
		value := 0.0
		if ready.Status == metav1.ConditionTrue {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(s.ready, prometheus.GaugeValue, value, render.Namespace, render.Name)
	}
}
