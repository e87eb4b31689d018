package syncserver

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/internal/tracing"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Observer is told how deliveries end. Its methods must not block.
type Observer interface {
	// Delivered takes the code of a result, in lower case, and when the hub learned of
	// the change that was delivered; zero when no change was the cause.
	Delivered(result string, changed time.Time)
}

// unobserved is the Observer of who names none.
type unobserved struct{}

func (unobserved) Delivered(string, time.Time) {}

// delivery is one under way.
type delivery struct {
	changed time.Time
	span    trace.Span
}

// deliveries are those of a session that are under way, for metrics and traces alone:
// what counts is in the fleet's outbox.
type deliveries struct {
	max int

	// mu guards open, by nonce: one goroutine sends, another receives.
	mu   sync.Mutex
	open map[uint64]delivery
}

// begin makes the frame for an answer, and notes it when it is a delivery.
func (d *deliveries) begin(ctx context.Context, cluster string, f fleet.Frame) *fleetv1.SessionResponse {
	frame := answerFrame(f)
	deliver := frame.GetDeliver()
	if deliver == nil {
		return frame
	}
	ctx, span := tracing.Start(tracing.Below(ctx, f.Answer.Cause.Span), tracing.Session, tracing.About{Cluster: cluster, Namespace: f.ID.Namespace, Name: f.ID.Name})
	deliver.Traceparent = tracing.Traceparent(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[uint64]delivery{}
	}
	// A spoke that answers none of them must not grow the map.
	if len(d.open) < d.max {
		d.open[f.Nonce] = delivery{changed: f.Answer.Cause.Changed, span: span}
	}
	return frame
}

// end forgets a delivery and ends its span.
func (d *deliveries) end(nonce uint64, result string) (changed time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended, ok := d.open[nonce]
	if !ok {
		return time.Time{}
	}
	delete(d.open, nonce)
	tracing.End(ended.span, result)
	return ended.changed
}

// lose ends the spans of deliveries whose session is over before their result.
func (d *deliveries) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, lost := range d.open {
		tracing.End(lost.span, "lost")
	}
	d.open = nil
}

// takeResult takes the answer to a delivery.
func (c *conn) takeResult(r *fleetv1.DeliveryResult) {
	result := codeOf(r)
	changed := c.deliveries.end(r.GetNonce(), result)
	if !c.session.Ack(resultOf(r)) {
		c.server.ignored.Add(1)
		return
	}
	c.server.cfg.Observer.Delivered(result, changed)
}

// codeOf is the name of a result's code; those of newer agents are one.
func codeOf(r *fleetv1.DeliveryResult) string {
	name, ok := fleetv1.DeliveryResult_Code_name[int32(r.GetCode())]
	if !ok {
		name = fleetv1.DeliveryResult_CODE_UNSPECIFIED.String()
	}
	return strings.ToLower(strings.TrimPrefix(name, "CODE_"))
}
