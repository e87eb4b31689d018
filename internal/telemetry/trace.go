package telemetry

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// The standard variables that say whether spans are sent, and how. The exporter, the
// sampler and the batches have further ones, which OpenTelemetry's SDK reads itself.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// flushTimeout bounds how long a process that ends waits for its last spans to be taken.
const flushTimeout = 5 * time.Second

// StartTracing sends the spans of the process to the OTLP collector that the standard
// variables of OpenTelemetry name. Without one it starts nothing, and spans cost next to
// nothing. Variables that ask for something else than OTLP over gRPC are logged, and
// nothing is sent: a webhook may set them, and what the process is for matters more. What
// StartTracing answers sends the rest and ends the sending.
func StartTracing(ctx context.Context, log logr.Logger, service, version string) (stop func()) {
	provider, err := newProvider(ctx, service, version)
	if err != nil {
		log.Error(err, "No traces are sent")
	}
	if provider == nil {
		return func() {}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Info("Spans were not sent", "cause", err.Error()) }))
	otel.SetTracerProvider(provider)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Info("The last spans were not sent", "cause", err.Error())
		}
	}
}

// newProvider is what the variables ask for; nil when they ask for nothing.
func newProvider(ctx context.Context, service, version string) (*trace.TracerProvider, error) {
	wanted, err := tracingWanted(os.Getenv)
	if err != nil || !wanted {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version),
	), resource.WithFromEnv()) // the last wins: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
	if err != nil {
		return nil, fmt.Errorf("describe the process: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx) // connects when there is something to send
	if err != nil {
		return nil, fmt.Errorf("set up the export: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about)), nil
}

// tracingWanted reads the variables.
func tracingWanted(env func(string) string) (bool, error) {
	if env(envEndpoint) == "" && env(envTracesEndpoint) == "" || strings.EqualFold(env(envDisabled), "true") {
		return false, nil
	}
	switch exporter := env(envExporter); exporter {
	case "", "otlp":
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("%s is %q: want otlp or none", envExporter, exporter)
	}
	for _, name := range []string{envProtocol, envTracesProtocol} {
		if protocol := env(name); protocol != "" && protocol != "grpc" {
			return false, fmt.Errorf("%s is %q: want grpc", name, protocol)
		}
	}
	return true, nil
}
