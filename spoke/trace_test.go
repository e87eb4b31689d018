package spoke_test

import (
	"testing"

	"github.com/onsi/gomega"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// What the agent does with a delivery is a part of the hub's trace, and says how it
// went.
func TestRun_GoesOnWithTheHubsTrace(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(kept)))
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	f := newFixture(t)
	f.store.Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.must(cluster.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "foreign"}}))
	f.store.Set("doc", "a", "canary")
	f.settled(f.render("good"), 1)
	f.status(f.render("bad", func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret = "foreign" }), v1alpha1.ConditionApplied, v1alpha1.ReasonTargetNotOwned)

	said := func() map[string]string {
		reasons := map[string]string{}
		for _, span := range kept.GetSpans() {
			if span.Name != "apply.Apply" || span.Parent.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || span.Parent.SpanID().String() != "00f067aa0ba902b7" {
				t.Errorf("%s below %v", span.Name, span.Parent)
			}
			about := map[string]string{}
			for _, a := range span.Attributes {
				about[string(a.Key)] = a.Value.AsString()
			}
			reasons[about["name"]] = about["reason"]
		}
		return reasons
	}
	f.Eventually(said).Should(gomega.Equal(map[string]string{"good": v1alpha1.ReasonApplied, "bad": v1alpha1.ReasonTargetNotOwned}))
}
