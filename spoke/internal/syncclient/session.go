package syncclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
)

const (
	// protocolVersion is what this agent speaks.
	protocolVersion = 1
	// welcomeTimeout bounds connecting and the hub's greeting: it covers a hub
	// that paces admissions.
	welcomeTimeout = 60 * time.Second
	// sendTimeout is how long one send may be blocked by a hub that does not read.
	sendTimeout = 30 * time.Second
	// defaultHeartbeat serves a hub that states no interval.
	defaultHeartbeat = 10 * time.Second
	// missedHeartbeats in a row end the session.
	missedHeartbeats = 3
)

// session is one stream. Five goroutines serve it, all ended by run: one sends, one
// receives, one watches the time, one the cluster's keys, and gRPC's own.
type session struct {
	id       uint64
	config   *Config
	outbox   *outbox
	renewAt  time.Time
	onBundle func(context.Context, []*x509.Certificate)

	stream    grpc.BidiStreamingClient[fleetv1.SessionRequest, fleetv1.SessionResponse]
	cancel    context.CancelCauseFunc
	heartbeat time.Duration
	// heard is when the last frame of the hub came, in Unix nanoseconds.
	heard atomic.Int64
	// drain has room for the first Drain's window; later ones say nothing new.
	drain chan time.Duration
	// keys hands the cluster's keys to the goroutine that sends.
	keys chan *fleetv1.ClusterKeys
}

// run holds the session until it ends.
func (s *session) run(ctx context.Context, conn *grpc.ClientConn) ending {
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	s.drain, s.keys = make(chan time.Duration, 1), make(chan *fleetv1.ClusterKeys)

	welcome, err := s.open(ctx, conn)
	if err != nil {
		return ending{err: err}
	}
	established := time.Now()
	s.welcomed(ctx, welcome)
	defer s.over()

	var group errgroup.Group
	for _, serve := range []func(context.Context) error{s.sendAll, s.receiveAll, s.watch, s.watchKeys} {
		group.Go(func() error {
			err := serve(ctx)
			s.cancel(err) // the first to end ends the others; its error is the cause
			return err
		})
	}
	_ = group.Wait() // the cause says more: the others end because of it
	err = context.Cause(ctx)
	planned := errors.Is(err, errRenewal) || errors.Is(err, errDrained)
	return ending{err: err, established: true, planned: planned, lasted: time.Since(established)}
}

// open says Hello and waits for Welcome.
func (s *session) open(ctx context.Context, conn *grpc.ClientConn) (*fleetv1.Welcome, error) {
	late := time.AfterFunc(welcomeTimeout, func() { s.cancel(errNoWelcome) })
	defer late.Stop()
	stream, err := fleetv1.NewSyncServiceClient(conn).Session(ctx)
	if err != nil {
		return nil, s.why(ctx, err)
	}
	s.stream = stream
	hello := &fleetv1.Hello{Agent: s.config.agent(), ProtocolVersion: protocolVersion}
	err = s.send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Hello{Hello: hello}})
	if err != nil && !errors.Is(err, io.EOF) { // EOF: receiving tells why
		return nil, s.why(ctx, err)
	}
	frame, err := stream.Recv()
	if err != nil {
		return nil, s.why(ctx, err)
	}
	welcome := frame.GetWelcome()
	if welcome == nil {
		return nil, errors.New("the hub's first frame is no welcome")
	}
	return welcome, nil
}

// why prefers the reason we ended the session for to what gRPC made of it.
func (s *session) why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fromStatus(err)
}

// welcomed takes what the Welcome says.
func (s *session) welcomed(ctx context.Context, welcome *fleetv1.Welcome) {
	log := logr.FromContextOrDiscard(ctx)
	s.heartbeat = welcome.GetHeartbeatInterval().AsDuration()
	if s.heartbeat <= 0 {
		s.heartbeat = defaultHeartbeat
	}
	s.heard.Store(time.Now().UnixNano())
	roots, err := credential.ParseBundle(welcome.GetTrustBundleDer())
	if err != nil {
		log.Info("The hub's trust bundle cannot be read", "cause", err.Error())
	} else {
		s.onBundle(ctx, roots)
	}
	log.Info("Session established", "replica", welcome.GetHub(), "epoch", welcome.GetEpoch(),
		"protocol", welcome.GetProtocolVersion(), "clockAhead", clockAhead(welcome).String())
	connected.Set(1)
	s.config.Receiver.Connected(true)
}

// over takes the end of an established session.
func (s *session) over() {
	s.outbox.end()
	connected.Set(0)
	s.config.Receiver.Connected(false)
}

// clockAhead is how far our clock is ahead of the hub's, to the second.
func clockAhead(welcome *fleetv1.Welcome) time.Duration {
	if welcome.GetServerTime() == nil {
		return 0
	}
	return time.Since(welcome.GetServerTime().AsTime()).Round(time.Second)
}

// sendAll sends the inventory, then whatever comes, and heartbeats.
func (s *session) sendAll(ctx context.Context) error {
	for _, page := range pages(s.id, s.outbox.begin(s.id)) {
		frame := &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: page}}
		if err := s.send(frame); err != nil {
			return s.sendFailed(ctx, err)
		}
	}
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	for seq := uint64(1); ; {
		frame := s.outbox.next()
		if frame == nil {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-s.outbox.wake:
				continue
			case keys := <-s.keys:
				frame = &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Keys{Keys: keys}}
			case <-ticker.C:
				frame = &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{Seq: seq}}}
				seq++
			}
		}
		if err := s.send(frame); err != nil {
			return s.sendFailed(ctx, err)
		}
	}
}

// send sends one frame, for sendTimeout at most.
func (s *session) send(frame *fleetv1.SessionRequest) error {
	blocked := time.AfterFunc(sendTimeout, func() { s.cancel(errSendBlocked) })
	defer blocked.Stop()
	return s.stream.Send(frame)
}

// sendFailed is why a send failed. On io.EOF the stream has ended, and only the
// goroutine that receives learns why.
func (s *session) sendFailed(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		<-ctx.Done()
	}
	return s.why(ctx, err)
}

// receiveAll takes frames until the stream ends.
func (s *session) receiveAll(ctx context.Context) error {
	for {
		frame, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the hub ended the session")
		}
		if err != nil {
			return s.why(ctx, err)
		}
		s.heard.Store(time.Now().UnixNano())
		s.dispatch(frame)
	}
}

// dispatch hands a frame on.
func (s *session) dispatch(frame *fleetv1.SessionResponse) {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionResponse_Deliver:
		s.config.Receiver.Deliver(f.Deliver, func(result *fleetv1.DeliveryResult) { s.outbox.result(s.id, result) })
	case *fleetv1.SessionResponse_Current:
		s.config.Receiver.Current(f.Current)
	case *fleetv1.SessionResponse_Refusal:
		s.config.Receiver.Refuse(f.Refusal)
	case *fleetv1.SessionResponse_Heartbeat:
	case *fleetv1.SessionResponse_Drain:
		select {
		case s.drain <- f.Drain.GetWindow().AsDuration():
		default:
		}
	default:
		unknownFrames.Inc()
	}
}

// watch ends the session when the hub is silent, asked for a new one, or the
// certificate is due. A drained session serves until its moment has come.
func (s *session) watch(ctx context.Context) error {
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	renew := time.NewTimer(time.Until(s.renewAt))
	defer renew.Stop()
	drain := s.drain
	var drained <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if silent := time.Since(time.Unix(0, s.heard.Load())); silent > missedHeartbeats*s.heartbeat {
				return fmt.Errorf("%w (%s)", errHubSilent, silent.Round(time.Millisecond))
			}
		case <-renew.C:
			return errRenewal
		case window := <-drain:
			drain = nil // the first counts: a later one would only push the moment away
			drained = time.After(uniform(0, window))
		case <-drained:
			return errDrained
		}
	}
}
