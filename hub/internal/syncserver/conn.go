package syncserver

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

var (
	errDraining = &identity.Error{Reason: identity.ReasonDraining, Message: "this replica of the hub stops"}
	errNoHello  = &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "the first frame must be a hello"}
	errSilent   = &identity.Error{Reason: identity.ReasonHeartbeatMissed, Message: "nothing came for three heartbeats"}
	errBlocked  = &identity.Error{Reason: identity.ReasonSendBlocked, Message: "nothing was read for 30 seconds"}
	errAged     = &identity.Error{Reason: identity.ReasonSessionAged, Message: "the session or its certificate is over"}
	errTwin     = &identity.Error{Reason: identity.ReasonSuperseded, Message: "a newer session of the same cluster took over"}
	errTooMany  = &identity.Error{Reason: identity.ReasonTooManyRenders, Message: "the inventory has more Renders than this hub takes"}
	errTooEarly = &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "a change came before the whole inventory"}
)

// A session whose certificate counts no more is asked to go within so many heartbeats,
// and ended after a few more. That is a minute: most of a thousand spokes pass the bound
// on enrolments in it, and who stole a root has no longer.
const unverifiedDrain, unverifiedEnd = 4, 6

// conn is one session's stream.
type conn struct {
	server  *Server
	stream  fleetv1.SyncService_SessionServer
	cluster string
	session *fleet.Session
	// notAfter is when the session is to end; see age, which is of the handler alone.
	notAfter time.Time
	age      *age
	// peer is who was verified last, unverified why its certificate counts no more; of
	// the handler alone.
	peer       peer.Identity
	unverified error

	frames chan *fleetv1.SessionRequest
	// over takes the end of the receiver and that of the sender.
	over chan error
	// drains takes the one Drain of the session; told says that there was one.
	drains chan *fleetv1.Drain
	told   atomic.Bool
	// sendingSince is when the send under way began, in Unix nanoseconds; 0 when
	// none is.
	sendingSince atomic.Int64

	inventory  inventory
	deliveries deliveries
	keys       *rate.Limiter
	// recorded is closed once the keys that came last are; of the handler alone.
	recorded chan struct{}
}

func newConn(s *Server, stream fleetv1.SyncService_SessionServer, id peer.Identity) *conn {
	return &conn{
		server: s, stream: stream, cluster: id.Cluster, peer: id,
		frames: make(chan *fleetv1.SessionRequest), over: make(chan error, 2), drains: make(chan *fleetv1.Drain, 1),
		inventory: inventory{max: s.cfg.MaxRenders}, deliveries: deliveries{max: s.cfg.MaxRenders},
		keys: rate.NewLimiter(rate.Every(keysInterval), keysBurst),
	}
}

// receive hands frames to the handler until the stream ends.
func (c *conn) receive(ctx context.Context) {
	for {
		frame, err := c.stream.Recv()
		if err != nil {
			c.over <- err
			return
		}
		select {
		case c.frames <- frame:
		case <-ctx.Done():
			return
		}
	}
}

// hello waits for the first frame.
func (c *conn) hello(ctx context.Context) (*fleetv1.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case frame := <-c.frames:
		if hello := frame.GetHello(); hello != nil {
			return hello, nil
		}
		return nil, errNoHello
	case err := <-c.over:
		if errors.Is(err, io.EOF) {
			return nil, errNoHello
		}
		return nil, err
	case <-timeout.C:
		return nil, errNoHello
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run is the handler's loop: it returns nil when the spoke closed the stream.
func (c *conn) run(ctx context.Context) error {
	go c.sendAll(ctx)
	defer c.deliveries.lose()

	watchdog := time.NewTicker(c.server.cfg.Heartbeat)
	defer watchdog.Stop()
	c.age = newAge(c.notAfter)
	defer c.age.stop()
	draining := c.server.draining
	seen := time.Now()

	for {
		var err error
		select {
		case frame := <-c.frames:
			err = c.handle(ctx, frame)
			seen = time.Now() // after it: time spent here is no silence of the spoke
		case over := <-c.over:
			return endOf(over)
		case <-c.session.Ended():
			return causeOf(c.session)
		case <-watchdog.C:
			err = c.watch(ctx, seen)
		case <-c.age.drain.C:
			c.drain(fleetv1.Drain_REASON_AGE, c.age.lead/2)
		case <-draining:
			draining = nil
			c.drain(fleetv1.Drain_REASON_SHUTDOWN, c.server.drainWindow)
		case <-c.age.end.C:
			err = c.aged(ctx)
		case answer := <-c.age.asked:
			err = c.answered(answer)
		}
		if err != nil {
			return err
		}
	}
}

// watch ends the session of a peer that is silent or does not read, and looks at its
// certificate.
func (c *conn) watch(ctx context.Context, seen time.Time) error {
	if time.Since(seen) > missedHeartbeats*c.server.cfg.Heartbeat {
		return errSilent
	}
	if since := c.sendingSince.Load(); since != 0 && time.Since(time.Unix(0, since)) > sendTimeout {
		return errBlocked
	}
	c.verify(ctx)
	return nil
}

// verify looks at the certificate again. One that counts no more, for its root was
// retired, ends the session; before that the spoke is asked to open the next, at a time
// of its own, since all spokes are.
func (c *conn) verify(ctx context.Context) {
	if c.unverified != nil {
		return
	}
	if c.peer, c.unverified = c.server.cfg.Peers.Confirm(ctx, c.peer); c.unverified != nil {
		c.drain(fleetv1.Drain_REASON_AGE, unverifiedDrain*c.server.cfg.Heartbeat)
		c.age.end.Reset(min(unverifiedEnd*c.server.cfg.Heartbeat, time.Until(c.age.until)))
	}
}

func (c *conn) welcome() *fleetv1.Welcome {
	return &fleetv1.Welcome{
		ProtocolVersion: ProtocolVersion, Hub: c.server.cfg.Hub, Epoch: c.session.Epoch(),
		ServerTime: timestamppb.Now(), HeartbeatInterval: durationpb.New(c.server.cfg.Heartbeat),
		SessionNotAfter: timestamppb.New(c.notAfter), TrustBundleDer: c.server.cfg.Bundle(),
	}
}

// sendAll is the one sender: the welcome, then answers, heartbeats and drains.
func (c *conn) sendAll(ctx context.Context) {
	if err := c.send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Welcome{Welcome: c.welcome()}}); err != nil {
		c.over <- err
		return
	}
	answers := make(chan *fleetv1.SessionResponse)
	go c.takeAnswers(ctx, answers)
	beat := time.NewTicker(c.server.cfg.Heartbeat)
	defer beat.Stop()
	for seq := uint64(1); ; {
		var frame *fleetv1.SessionResponse
		select {
		case frame = <-answers:
		case drain := <-c.drains:
			frame = &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Drain{Drain: drain}}
		case <-beat.C:
			frame = &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Heartbeat{Heartbeat: &fleetv1.Heartbeat{Seq: seq}}}
			seq++
		case <-ctx.Done():
			return
		}
		if err := c.send(frame); err != nil {
			c.over <- err
			return
		}
	}
}

// takeAnswers moves answers from the outbox to the sender, one at a time.
func (c *conn) takeAnswers(ctx context.Context, answers chan<- *fleetv1.SessionResponse) {
	for {
		frame, err := c.session.Next(ctx)
		if err != nil {
			return // the session is over; the handler sees it
		}
		select {
		case answers <- c.deliveries.begin(ctx, c.cluster, frame):
		case <-ctx.Done():
			return
		}
	}
}

func (c *conn) send(frame *fleetv1.SessionResponse) error {
	c.sendingSince.Store(time.Now().UnixNano())
	defer c.sendingSince.Store(0)
	return c.stream.Send(frame)
}

// endOf makes the end of a stream by its client no error.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// causeOf says why the fleet ended a session.
func causeOf(s *fleet.Session) error {
	if errors.Is(s.Cause(), fleet.ErrSuperseded) {
		return errTwin
	}
	return s.Cause()
}
