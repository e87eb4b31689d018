// Package tracing carries one trace from the change of a document to the target that
// holds it. Spans have the names of the steps in docs/ARCHITECTURE.md. Their attributes
// are names and reasons, never a value. Nothing is recorded unless package telemetry
// started an exporter.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The names of spans; docs/ARCHITECTURE.md says which step is which.
const (
	StoreFetch = "store.Fetch"
	StorePoll  = "store.Poll"
	StoreWatch = "store.Watch"
	Reconcile  = "render.Reconcile"
	Evaluate   = "policy.Evaluate"
	RenderForm = "render.Render"
	Deliver    = "fleet.Deliver"
	Session    = "syncserver.Session"
	Apply      = "apply.Apply"
)

// scope names our spans among those of a process.
const scope = "dynamic-config.rs/fleet"

// header is the key of a span in its W3C form.
const header = "traceparent"

// About says what a span is about; what is empty is left out.
type About struct {
	// Class and Key of the document.
	Class, Key string
	// Cluster of the Render, where it is not the process's own.
	Cluster string
	// Namespace and Name of the Render.
	Namespace, Name string
}

func (a About) attributes() []attribute.KeyValue {
	var said []attribute.KeyValue
	for _, pair := range [][2]string{
		{"class", a.Class}, {"key", a.Key}, {"cluster", a.Cluster}, {"namespace", a.Namespace}, {"name", a.Name},
	} {
		if pair[1] != "" {
			said = append(said, attribute.String(pair[0], pair[1]))
		}
	}
	return said
}

// Start begins a span, below the one of the context.
func Start(ctx context.Context, name string, about About, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := otel.Tracer(scope).Start(ctx, name, options...)
	if span.IsRecording() {
		span.SetAttributes(about.attributes()...)
	}
	return ctx, span
}

// Below makes what begins with the context a part of another span; one that is not
// valid changes nothing.
func Below(ctx context.Context, parent trace.SpanContext) context.Context {
	if !parent.IsValid() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, parent)
}

// Traceparent is the span of the context in the W3C form; empty for one that is not
// recorded.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// Continue makes what begins with the context a part of a span in the W3C form; what
// is none changes nothing.
func Continue(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: traceparent})
}

// End ends a span with how it went: a reason of a condition or a code of the protocol;
// empty where there is nothing to say.
func End(span trace.Span, reason string) {
	if reason != "" {
		span.SetAttributes(attribute.String("reason", reason))
	}
	span.End()
}
