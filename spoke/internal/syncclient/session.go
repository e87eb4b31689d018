package syncclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
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
	// leaveTimeout bounds the end of a session that was replaced.
	leaveTimeout = 5 * time.Second
	// missedHeartbeats in a row end the session.
	missedHeartbeats = 3
)

// session is one stream. Five goroutines serve it, all ended by serve: one sends,
// one receives, one watches the time, one the cluster's keys, and gRPC's own.
type session struct {
	id     uint64
	config *Config
	outbox *outbox
	turn   *turn

	conn      *grpc.ClientConn
	stream    grpc.BidiStreamingClient[fleetv1.SessionRequest, fleetv1.SessionResponse]
	cancel    context.CancelCauseFunc
	heartbeat time.Duration
	frames    *frames
	// heard is when the last frame of the hub came, in Unix nanoseconds.
	heard atomic.Int64
	// drain has room for the first Drain's window; later ones say nothing new.
	drain chan time.Duration

	// keys hands the cluster's keys to the goroutine that sends.
	keys chan *fleetv1.ClusterKeys

	// established is closed once the hub has the whole inventory.
	established chan struct{}
	// drained is closed when the time has come to open the next session.
	drained chan struct{}
	// leaving is closed when the next session has taken over.
	leaving chan struct{}
	// done is closed when the session is over, after err is set.
	done chan struct{}
	err  error
	// welcomedAt is when it was welcomed.
	welcomedAt time.Time
}

func newSession(id uint64, c *Client, conn *grpc.ClientConn) *session {
	return &session{
		id: id, config: &c.config, outbox: c.outbox, turn: &c.turn, conn: conn, drain: make(chan time.Duration, 1),
		keys:        make(chan *fleetv1.ClusterKeys),
		established: make(chan struct{}), drained: make(chan struct{}), leaving: make(chan struct{}), done: make(chan struct{}),
	}
}

// serve holds a session that was welcomed until it ends.
func (s *session) serve(ctx context.Context) {
	defer close(s.done)
	defer s.conn.Close()
	defer s.cancel(nil)
	s.turn.begin()
	defer s.turn.end()
	var specs []*fleetv1.RenderSpec
	s.frames, specs = s.outbox.begin()
	defer s.outbox.end(s.frames)

	var group errgroup.Group
	for _, serve := range []func(context.Context) error{
		func(ctx context.Context) error { return s.sendAll(ctx, specs) }, s.receiveAll, s.watch, s.watchKeys,
	} {
		group.Go(func() error {
			err := serve(ctx)
			s.cancel(err) // the first to end ends the others; its error is the cause
			return err
		})
	}
	_ = group.Wait() // the cause says more: the others end because of it
	s.err = context.Cause(ctx)
}

// leave lets the session go once the next one has taken over: what it still owes is
// sent, then it is closed.
func (s *session) leave() {
	close(s.leaving)
	late := time.AfterFunc(leaveTimeout, func() { s.cancel(errReplaced) })
	go func() { // ends with the session, by late at the latest
		<-s.done
		late.Stop()
	}()
}

// over says whether the session has ended.
func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// open says Hello and waits for Welcome. The context it returns is the session's.
func (s *session) open(parent context.Context) (context.Context, *fleetv1.Welcome, error) {
	ctx, cancel := context.WithCancelCause(parent)
	s.cancel = cancel
	welcome, err := s.greet(ctx)
	if err != nil {
		cancel(nil)
		return nil, nil, errors.Join(err, s.conn.Close())
	}
	return ctx, welcome, nil
}

func (s *session) greet(ctx context.Context) (*fleetv1.Welcome, error) {
	late := time.AfterFunc(welcomeTimeout, func() { s.cancel(errNoWelcome) })
	defer late.Stop()
	stream, err := fleetv1.NewSyncServiceClient(s.conn).Session(ctx)
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
	s.welcomedAt = time.Now()
	s.heard.Store(s.welcomedAt.UnixNano())
	s.heartbeat = welcome.GetHeartbeatInterval().AsDuration()
	if s.heartbeat <= 0 {
		s.heartbeat = defaultHeartbeat
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

// clockAhead is how far our clock is ahead of the hub's, to the second.
func clockAhead(welcome *fleetv1.Welcome) time.Duration {
	if welcome.GetServerTime() == nil {
		return 0
	}
	return time.Since(welcome.GetServerTime().AsTime()).Round(time.Second)
}

// sendAll sends the inventory, then whatever comes, and heartbeats.
func (s *session) sendAll(ctx context.Context, specs []*fleetv1.RenderSpec) error {
	for _, page := range pages(s.id, specs) {
		frame := &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: page}}
		if err := s.send(frame); err != nil {
			return s.sendFailed(ctx, err)
		}
	}
	s.turn.take(s.id, func() {})
	close(s.established)
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	for seq := uint64(1); ; {
		frame := s.outbox.next(s.frames)
		if frame == nil {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-s.leaving:
				return s.sendEnd(ctx)
			case <-s.frames.wake:
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

// sendEnd tells the hub that nothing more comes, and waits for its end of the stream.
func (s *session) sendEnd(ctx context.Context) error {
	if err := s.stream.CloseSend(); err != nil {
		return s.sendFailed(ctx, err)
	}
	<-ctx.Done()
	return context.Cause(ctx)
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

// dispatch hands a frame on. The hub answers once it has the whole inventory: so an
// answer may be the first to say that this session has taken over.
func (s *session) dispatch(frame *fleetv1.SessionResponse) {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionResponse_Deliver:
		s.turn.take(s.id, func() { s.config.Receiver.Deliver(f.Deliver, s.reply) })
	case *fleetv1.SessionResponse_Current:
		s.turn.take(s.id, func() { s.config.Receiver.Current(f.Current) })
	case *fleetv1.SessionResponse_Refusal:
		s.turn.take(s.id, func() { s.config.Receiver.Refuse(f.Refusal) })
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

// reply answers a delivery of this session.
func (s *session) reply(result *fleetv1.DeliveryResult) { s.outbox.result(s.frames, result) }

// watch ends the session when the hub is silent, and says when the moment has come
// that the hub asked for. A drained session serves on.
func (s *session) watch(ctx context.Context) error {
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
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
		case window := <-drain:
			drain = nil // the first counts: a later one would only push the moment away
			drained = time.After(uniform(0, window))
		case <-drained:
			close(s.drained)
			drained = nil
		}
	}
}
