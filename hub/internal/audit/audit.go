package audit

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Verdict is what became of what was asked for.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused"
	Ended   Verdict = "ended" // a session that was allowed, or was not decided about
)

// The kinds of line.
const (
	eventDecision  = "decision"
	eventEnrolment = "enrolment"
	eventSession   = "session"
	eventAuthority = "authority"
	eventLogin     = "login"
	eventDropped   = "dropped"
)

// unproven is the cluster of lines about peers that proved nothing: they share one
// bound, since names are free.
const unproven = ""

// reportInterval is how often dropped lines are counted out.
const reportInterval = 10 * time.Second

// Log is the audit log. It is safe for concurrent use.
type Log struct {
	out slog.Handler

	// mu guards what follows.
	mu        sync.Mutex
	bounds    map[bound]*bucket
	decisions map[string]map[render]uint64 // by cluster; see Decide
	failed    int                          // lines that could not be written
	failure   error                        // why the last of them could not
}

// New returns a Log that writes to w.
func New(w io.Writer) *Log {
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.LevelKey:
			return slog.Attr{}
		case slog.MessageKey:
			a.Key = "event"
		}
		return a
	}})
	return &Log{
		out:    handler.WithAttrs([]slog.Attr{slog.String("logger", "audit")}),
		bounds: map[bound]*bucket{}, decisions: map[string]map[render]uint64{},
	}
}

// Enrolment records an answer to a request. The name in it counts as the cluster's only
// when it was proven. A request that was put off is none: nothing was decided, and a
// stranger's many would hide what was.
func (l *Log) Enrolment(ctx context.Context, req *fleetv1.EnrollRequest, err error) {
	var refusal *identity.Error
	if l == nil || (errors.As(err, &refusal) && refusal.Reason == identity.ReasonTooManyRequests) {
		return
	}
	attrs := []slog.Attr{evidence(req), from(ctx)}
	if err == nil {
		l.write(ctx, req.GetCluster(), eventEnrolment, Allowed, attrs...)
		return
	}
	l.write(ctx, unproven, eventEnrolment, Refused, append(attrs, slog.String("claimed", clean(req.GetCluster(), maxName)), reason(err))...)
}

// Session records the end of a stream, or its refusal; the cluster is empty where it
// was not proven.
func (l *Log) Session(ctx context.Context, cluster string, err error) {
	if l == nil {
		return
	}
	verdict := Ended
	var refusal *identity.Error
	if errors.As(err, &refusal) && !ends[refusal.Reason] {
		verdict = Refused
	}
	l.write(ctx, cluster, eventSession, verdict, reason(err), from(ctx))
}

// Authority records that the root of the hub's certificate authority moved on.
func (l *Log) Authority(ctx context.Context, stage string) {
	if l != nil {
		l.write(ctx, unproven, eventAuthority, "", slog.String("stage", stage))
	}
}

// Login records who was let in to see the fleet page, or was not; the user is empty where
// nobody vouched for one. Where they asked from is host:port.
func (l *Log) Login(ctx context.Context, user, address string, verdict Verdict, reason string) {
	if l == nil {
		return
	}
	attrs := []slog.Attr{slog.String("user", clean(user, maxName)), host(address)}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", reason))
	}
	l.write(ctx, unproven, eventLogin, verdict, attrs...)
}

// Run writes how many lines were dropped, until the context ends, and then once more.
func (l *Log) Run(ctx context.Context) error {
	if l == nil {
		return nil
	}
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.report(ctx)
			return nil
		}
		l.report(ctx)
	}
}

// report writes what was dropped and forgets bounds that nobody uses.
func (l *Log) report(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, b := range l.bounds {
		if b.dropped > 0 {
			l.emit(ctx, key, eventDropped, slog.Int("dropped", b.dropped))
			b.dropped = 0
		} else if b.idle() {
			delete(l.bounds, key)
		}
	}
	if l.failed > 0 {
		ctrl.LoggerFrom(ctx).Error(l.failure, "Audit lines were lost", "lines", l.failed)
		l.failed = 0
	}
}

// write writes a line, or counts it where its bound is used up.
func (l *Log) write(ctx context.Context, cluster, event string, verdict Verdict, attrs ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := bound{cluster, verdict}
	b := l.bounds[key]
	if b == nil {
		b = newBucket()
		l.bounds[key] = b
	}
	if !b.allow() {
		b.dropped++
		return
	}
	l.emit(ctx, key, event, attrs...)
}

func (l *Log) emit(ctx context.Context, key bound, event string, attrs ...slog.Attr) {
	line := slog.NewRecord(time.Now(), slog.LevelInfo, event, 0)
	if key.cluster != unproven {
		line.AddAttrs(slog.String("cluster", clean(key.cluster, maxName)))
	}
	if key.verdict != "" {
		line.AddAttrs(slog.String("verdict", string(key.verdict)))
	}
	line.AddAttrs(attrs...)
	if err := l.out.Handle(ctx, line); err != nil {
		l.failed, l.failure = l.failed+1, err
	}
}

// ends are the reasons that end a session and say nothing against its cluster.
var ends = map[string]bool{
	identity.ReasonSuperseded: true, identity.ReasonHeartbeatMissed: true, identity.ReasonSendBlocked: true,
	identity.ReasonSessionAged: true, identity.ReasonDraining: true, identity.ReasonUnavailable: true,
}

// reason is an error's reason; of an error without one nothing else is told.
func reason(err error) slog.Attr {
	var refusal *identity.Error
	switch {
	case err == nil:
		return slog.String("reason", "Closed")
	case errors.As(err, &refusal):
		return slog.String("reason", refusal.Reason)
	default:
		return slog.String("reason", "Failed")
	}
}

// evidence is the kind of evidence that a request came with.
func evidence(req *fleetv1.EnrollRequest) slog.Attr {
	kind := "None"
	switch req.GetEvidence().(type) {
	case *fleetv1.EnrollRequest_JoinToken:
		kind = "JoinToken"
	case *fleetv1.EnrollRequest_ServiceAccountToken:
		kind = "ServiceAccountToken"
	}
	return slog.String("evidence", kind)
}

// from is the address at the other end, without its port.
func from(ctx context.Context) slog.Attr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return slog.Attr{}
	}
	return host(p.Addr.String())
}

func host(address string) slog.Attr {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return slog.Attr{}
	}
	return slog.String("from", host)
}
