package version_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dynamic-config.rs/fleet/internal/version"
)

func TestMetric_SaysTheBuild(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(version.Metric("hub"), version.Metric("spoke")) // one process may hold both
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "dynamicconfig_build_info" {
		t.Fatalf("%v, %v", families, err)
	}
	labels := map[string]string{}
	for _, pair := range families[0].GetMetric()[0].GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	if labels["component"] != "hub" || labels["version"] != version.Version || labels["commit"] != version.Commit || labels["date"] != version.Date {
		t.Errorf("labels %v", labels)
	}
}
