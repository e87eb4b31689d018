package syncserver_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// results are what an Observer was told.
type results struct {
	mu   sync.Mutex // guards told
	told []string
}

func (r *results) Delivered(result string, changed time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !changed.IsZero() {
		result += fmt.Sprintf(" of the change at %d", changed.Unix())
	}
	r.told = append(r.told, result)
}

func resultFrame(d *fleetv1.Deliver, code fleetv1.DeliveryResult_Code) *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: &fleetv1.DeliveryResult{
		Nonce: d.GetNonce(), Ref: d.GetRef(), Generation: d.GetGeneration(), Code: code,
	}}}
}

func answerOf(content string, cause fleet.Cause) fleet.Answer {
	return fleet.Answer{UID: "uid-web", Generation: 1, Cause: cause, Content: &fleet.Content{ID: []byte(content), Data: map[string][]byte{"a": []byte("canary")}}}
}

func TestSession_TellsHowDeliveriesEnd(t *testing.T) {
	told := &results{}
	s := newSite(t, func(c *syncserver.Config) { c.Observer = told })
	a := s.open(t, "prod", time.Hour)
	a.hello()
	a.send(inventory("shop/web@1"), 0)
	changed := time.Unix(1_700_000_000, 0)
	for i, tc := range []struct {
		cause fleet.Cause
		code  fleetv1.DeliveryResult_Code
	}{
		{fleet.Cause{Changed: changed}, fleetv1.DeliveryResult_CODE_APPLIED},
		{fleet.Cause{}, fleetv1.DeliveryResult_CODE_UNCHANGED},
		{fleet.Cause{Changed: changed}, fleetv1.DeliveryResult_CODE_REJECTED},
		{fleet.Cause{}, 99}, // of a newer agent
	} {
		s.fleet.Deliver("prod", fleet.ID{Namespace: "shop", Name: "web"}, answerOf(fmt.Sprint(i), tc.cause))
		d := a.next().GetDeliver()
		a.send(resultFrame(d, tc.code), 0)
		a.send(resultFrame(d, tc.code), 1) // once more: it counts for nothing
	}
	want := []string{"applied of the change at 1700000000", "unchanged", "rejected of the change at 1700000000", "unspecified"}
	if diff := cmp.Diff(want, told.told); diff != "" {
		t.Error(diff)
	}
}

func TestSession_ADeliveryIsASpanThatTheSpokeGoesOnFrom(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(kept))
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	_, answered := provider.Tracer("test").Start(t.Context(), "fleet.Deliver")

	s := newSite(t, nil)
	a := s.open(t, "prod", time.Hour)
	a.hello()
	a.send(inventory("shop/web@1"), 0)
	for i, end := range []string{"applied", "lost"} {
		kept.Reset()
		s.fleet.Deliver("prod", fleet.ID{Namespace: "shop", Name: "web"}, answerOf(fmt.Sprint(i), fleet.Cause{Span: answered.SpanContext()}))
		d := a.next().GetDeliver()
		if len(kept.GetSpans()) > 0 {
			t.Fatal("the span is over before the result is there")
		}
		if end == "lost" {
			s.fleet.End("prod", fleet.ErrDetached)
			a.verdict()
		} else {
			a.send(resultFrame(d, fleetv1.DeliveryResult_CODE_APPLIED), 0)
		}
		span := kept.GetSpans()[0]
		said := map[string]string{}
		for _, attribute := range span.Attributes {
			said[string(attribute.Key)] = attribute.Value.AsString()
		}
		if diff := cmp.Diff(map[string]string{"cluster": "prod", "namespace": "shop", "name": "web", "reason": end}, said); diff != "" {
			t.Error(diff)
		}
		if span.Name != "syncserver.Session" || span.Parent.SpanID() != answered.SpanContext().SpanID() ||
			!strings.Contains(d.GetTraceparent(), span.SpanContext.TraceID().String()+"-"+span.SpanContext.SpanID().String()) {
			t.Errorf("%s below %s was sent as %s", span.Name, span.Parent.SpanID(), d.GetTraceparent())
		}
	}
}

func TestCertificates_AreThoseOfOpenSessions(t *testing.T) {
	s := newSite(t, nil)
	s.open(t, "prod", time.Hour).hello()
	first := s.open(t, "dev", time.Hour)
	first.hello()
	s.open(t, "dev", 3*time.Hour).hello() // and ends the first
	first.verdict()
	ends := s.server.Certificates()
	if diff := cmp.Diff([]string{"dev", "prod"}, slices.Sorted(maps.Keys(ends))); diff != "" {
		t.Fatal(diff)
	}
	if left := time.Until(ends["dev"]); left < 2*time.Hour {
		t.Errorf("the certificate of the newer session ends in 3 h, told is %v", left)
	}
	s.fleet.End("dev", fleet.ErrDetached)
	s.fleet.End("prod", fleet.ErrDetached)
	gomega.NewWithT(t).Eventually(s.server.Certificates).WithTimeout(patience).Should(gomega.BeEmpty())
}
