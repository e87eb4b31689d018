package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// spansOf are the spans of the trace of an answer, each below its parent's.
func spansOf(t *testing.T, kept *tracetest.InMemoryExporter, a fleet.Answer) (paths []string) {
	t.Helper()
	byID := map[string]tracetest.SpanStub{}
	for _, span := range kept.GetSpans() {
		byID[span.SpanContext.SpanID().String()] = span
	}
	for _, span := range kept.GetSpans() {
		if span.SpanContext.TraceID() != a.Cause.Span.TraceID() {
			continue
		}
		path := []string{span.Name}
		for parent, ok := byID[span.Parent.SpanID().String()]; ok; parent, ok = byID[parent.Parent.SpanID().String()] {
			path = append([]string{parent.Name}, path...)
		}
		for _, said := range span.Attributes {
			if strings.Contains(said.Value.String(), canary) {
				t.Errorf("%s holds a value", span.Name)
			}
			if said.Key == "reason" {
				path = append(path, said.Value.AsString())
			}
		}
		paths = append(paths, strings.Join(path, " > "))
	}
	return paths
}

// The answer to a change is a part of the trace that began where the change was seen,
// and one to anything else begins a trace.
func TestReconcile_Traces(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(kept)))
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	s.has(`"one"`)

	documents.Put("app.json", strings.Replace(document, "one", "two", 1))
	changed := s.once("the answer says when the document changed", func(a fleet.Answer) bool {
		return a.Content != nil && strings.Contains(string(a.Content.Data["app.json"]), `"two"`) && !a.Cause.Changed.IsZero()
	})
	want := []string{
		"store.Watch",
		"store.Watch > render.Reconcile > policy.Evaluate",
		"store.Watch > render.Reconcile > render.Render",
		"store.Watch > render.Reconcile > fleet.Deliver",
		"store.Watch > render.Reconcile",
	}
	// The last span ends after the answer is there.
	gomega.NewWithT(t).Eventually(func() string { return cmp.Diff(want, spansOf(t, kept, changed)) }).WithTimeout(patience).Should(gomega.BeEmpty())

	c.Spec.Namespaces = []string{"none"}
	update(t, c)
	refused := s.refused(v1alpha1.ReasonClassNotAllowed, "")
	if !refused.Cause.Changed.IsZero() {
		t.Error("an edit of a class is taken for a change of the document")
	}
	want = []string{
		"render.Reconcile > policy.Evaluate",
		"render.Reconcile > fleet.Deliver > " + v1alpha1.ReasonClassNotAllowed,
		"render.Reconcile",
	}
	gomega.NewWithT(t).Eventually(func() string { return cmp.Diff(want, spansOf(t, kept, refused)) }).WithTimeout(patience).Should(gomega.BeEmpty())
}
