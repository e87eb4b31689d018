package spoke_test

import (
	"testing"

	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/metricstest"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func TestMetrics_ThePageAndTheAgentAgree(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	all, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatal("the registry does not say what it holds")
	}
	families := gather(t)
	metricstest.Read(t, "../docs/metrics.md", "Agent").Agree(t, metricstest.Described(t, all), families)
	metricstest.Lint(t, families)
}

func TestMetrics_ARenderHasASeriesAsLongAsItIsThere(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	ready := func() map[string]float64 {
		found := map[string]float64{}
		for _, m := range family(gather(t), "dynamicconfig_render_ready").GetMetric() {
			labels := map[string]string{}
			for _, pair := range m.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["render_namespace"] == f.namespace {
				found[labels["render"]] = m.GetGauge().GetValue()
			}
		}
		return found
	}
	f.Eventually(ready).Should(gomega.Equal(map[string]float64{"pg": 1}))
	f.store.Refuse("doc", &fleetv1.Refusal{
		ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched, CauseReason: v1alpha1.ReasonStoreSealed,
	})
	f.Eventually(ready).Should(gomega.Equal(map[string]float64{"pg": 0}))
	f.must(cluster.Client.Delete(f.Context(), r))
	f.Eventually(ready).Should(gomega.BeEmpty())
}

func gather(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func family(all []*dto.MetricFamily, name string) *dto.MetricFamily {
	for _, f := range all {
		if f.GetName() == name {
			return f
		}
	}
	return nil
}
