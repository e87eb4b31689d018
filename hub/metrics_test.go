package hub

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/metrics"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/replicas"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/metricstest"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestMetrics_ThePageAndTheHubAgree(t *testing.T) {
	class := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: "platform"},
		Status: v1alpha1.ClassStatus{
			Renders:    &v1alpha1.RenderCounts{Total: 3, Ready: 2},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
	objects := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(class, &v1alpha1.SpokeCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true},
	}).Build()
	o := observers{metrics.NewStores(), metrics.NewDeliveries()}
	o.stores.Answered("ClusterDynamicConfigClass/platform", nil)
	o.stores.Fetched("ClusterDynamicConfigClass/platform", time.Second)
	o.deliveries.Delivered("applied", time.Now())
	secrets, err := authority.Load(t.Context(), authority.Config{Client: objects, Namespace: "hub", TrustDomain: "test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	p := parts{clusters: fleet.New(fleet.Config{}), feeds: feed.New(feed.Config{}), secrets: secrets, registry: &registry.Registry{}, observers: o, peers: &peers{balancer: &replicas.Balancer{}}}
	all := collectors(t.Context(), objects, p, &serving{sessions: syncserver.New(syncserver.Config{Fleet: p.clusters})})

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(all...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metricstest.Read(t, "../docs/metrics.md", "Hub").Agree(t, metricstest.Described(t, all...), families)
	metricstest.Lint(t, families)
}
