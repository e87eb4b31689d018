package telemetry_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"dynamic-config.rs/fleet/internal/telemetry"
	"dynamic-config.rs/fleet/internal/tracing"
)

// taker is a collector that hands on what it takes.
type taker struct {
	collector.UnimplementedTraceServiceServer
	taken chan *collector.ExportTraceServiceRequest
}

func (c *taker) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.taken <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

// collect runs a collector until the test ends, and returns its address.
func collect(t *testing.T) (*taker, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &taker{taken: make(chan *collector.ExportTraceServiceRequest, 8)}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, listener.Addr().String()
}

func TestStartTracing_SendsToTheCollectorOfTheVariables(t *testing.T) {
	c, address := collect(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=hub-0")
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	stop := telemetry.StartTracing(t.Context(), logr.Discard(), "dynamic-config-hub", "v1")
	_, span := tracing.Start(t.Context(), tracing.Reconcile, tracing.About{Namespace: "shop"})
	span.End()
	stop()
	select {
	case request := <-c.taken:
		text := request.String()
		for _, want := range []string{"dynamic-config-hub", "hub-0", tracing.Reconcile, "shop"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was sent")
	}
}

func TestStartTracing_Variables(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, tc := range map[string]struct {
		variables map[string]string
		on        bool
		wantLog   string
	}{
		"nothing is sent by default":             {nil, false, ""},
		"an endpoint is enough":                  {map[string]string{endpoint: "http://127.0.0.1:1"}, true, ""},
		"one for traces alone too":               {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
		"a disabled SDK sends nothing":           {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, ""},
		"no exporter sends nothing":              {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		"the protocol that is there may be said": {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		"another is refused":                     {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, "want grpc"},
		"another for traces alone is too":        {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, false, "want grpc"},
		"another exporter is refused":            {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "zipkin"}, false, "want otlp"},
	} {
		t.Run(name, func(t *testing.T) {
			otel.SetTracerProvider(noop.NewTracerProvider())
			defer otel.SetTracerProvider(noop.NewTracerProvider())
			for name, value := range tc.variables {
				t.Setenv(name, value)
			}
			var said strings.Builder
			log := funcr.New(func(_, args string) { said.WriteString(args) }, funcr.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			stop := telemetry.StartTracing(ctx, log, "test", "v1")
			cancel()
			if !strings.Contains(said.String(), tc.wantLog) || tc.wantLog == "" && said.Len() > 0 {
				t.Errorf("want %s, got %s", tc.wantLog, said.String())
			}
			_, span := tracing.Start(t.Context(), tracing.Reconcile, tracing.About{})
			if span.IsRecording() != tc.on {
				t.Errorf("recording: %v", span.IsRecording())
			}
			stop()
		})
	}
}
