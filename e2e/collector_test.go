package e2e_test

import (
	"context"
	"net"
	"os"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// collected is the collector that hub and agents send their spans to.
var collected = &spans{}

// spans is a collector that keeps what it takes.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu  sync.Mutex // guards all
	all []span
}

// span is one with the service that sent it.
type span struct {
	*trace.Span
	service string
}

// attribute is a span's own; empty for none.
func (s span) attribute(key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, process := range r.GetResourceSpans() {
		service := ""
		for _, a := range process.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range process.GetScopeSpans() {
			for _, one := range scope.GetSpans() {
				s.all = append(s.all, span{one, service})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// where are the spans that a test looks for.
func (s *spans) where(is func(span) bool) []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []span
	for _, one := range s.all {
		if is(one) {
			found = append(found, one)
		}
	}
	return found
}

// bytes is everything that spans say.
func (s *spans) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text []byte
	for _, one := range s.all {
		said, err := proto.Marshal(one.Span)
		if err != nil {
			panic(err) // it came as such
		}
		text = append(text, said...)
	}
	return text
}

// startCollector has the processes that start from now on send their spans to
// collected.
func startCollector(ctx context.Context) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, collected)
	go server.Serve(listener) // until stop
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + listener.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY": "100",
	} {
		if err := os.Setenv(name, value); err != nil {
			return server.Stop, err
		}
	}
	return server.Stop, nil
}
