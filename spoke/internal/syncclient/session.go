package syncclient

import (
	"context"
	"errors"
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
