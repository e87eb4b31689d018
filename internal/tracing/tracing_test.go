package tracing_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"dynamic-config.rs/fleet/internal/tracing"
)

// record has spans kept until the test ends.
func record(t *testing.T) *tracetest.InMemoryExporter {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(kept)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	return kept
}

func TestStart_ATraceGoesOnInAnotherProcess(t *testing.T) {
	kept := record(t)
	here, span := tracing.Start(t.Context(), tracing.Session, tracing.About{})
	sent := tracing.Traceparent(here)
	if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(sent) {
		t.Fatalf("sent %q", sent)
	}
	_, there := tracing.Start(tracing.Continue(t.Context(), sent), tracing.Apply, tracing.About{Namespace: "shop", Name: "web"})
	tracing.End(there, "Applied")
	tracing.End(span, "")

	spans := kept.GetSpans()
	if spans[0].Parent.SpanID() != span.SpanContext().SpanID() || spans[0].SpanContext.TraceID() != span.SpanContext().TraceID() {
		t.Errorf("%s is not below %s", spans[0].Name, spans[1].Name)
	}
	var said []string
	for _, a := range spans[0].Attributes {
		said = append(said, string(a.Key)+"="+a.Value.AsString())
	}
	if diff := cmp.Diff([]string{"namespace=shop", "name=web", "reason=Applied"}, said); diff != "" {
		t.Error(diff)
	}
}

func TestContinue_WhatIsNoSpanBeginsATrace(t *testing.T) {
	kept := record(t)
	for name, text := range map[string]string{
		"nothing, as an older hub sends it": "",
		"nonsense":                          "canary",
		"a trace without an ID":             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
	} {
		t.Run(name, func(t *testing.T) {
			kept.Reset()
			_, span := tracing.Start(tracing.Continue(t.Context(), text), tracing.Apply, tracing.About{})
			span.End()
			if spans := kept.GetSpans(); len(spans) != 1 || spans[0].Parent.IsValid() {
				t.Errorf("got %v", spans)
			}
		})
	}
}

func TestTraceparent_NothingIsSentWithoutARecord(t *testing.T) {
	ctx, span := tracing.Start(t.Context(), tracing.Session, tracing.About{})
	defer span.End()
	if sent := tracing.Traceparent(ctx); sent != "" || span.IsRecording() {
		t.Errorf("sent %q", sent)
	}
}

// The page names the span of each step, and no other.
func TestNames_AreThoseOfTheArchitecture(t *testing.T) {
	page, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, row := range regexp.MustCompile(`(?m)^\| [1-8] .*\| ([^|]*) \|$`).FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named = append(named, name[1])
		}
	}
	want := []string{
		tracing.StoreFetch, tracing.StorePoll, tracing.StoreWatch, tracing.Reconcile, tracing.Evaluate,
		tracing.RenderForm, tracing.Deliver, tracing.Session, tracing.Apply,
	}
	slices.Sort(named)
	slices.Sort(want)
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("spans (-code +page):\n%s", diff)
	}
}

// What each step of a Render costs while nothing is traced.
func BenchmarkStart_Off(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, span := tracing.Start(b.Context(), tracing.Reconcile, tracing.About{Cluster: "east", Namespace: "shop", Name: "web"})
		tracing.End(span, "")
	}
}
