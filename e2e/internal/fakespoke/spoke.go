package fakespoke

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// failureRest is the least window over which a spoke comes back after a session that
// failed: hundreds that ask a hub in a loop that is away, or that put them off, take the
// machine from it.
const failureRest = 500 * time.Millisecond

// maxMessage is the largest frame an agent takes: what a target may hold, and room.
const maxMessage = 2 << 20

// Config says who a Spoke is and what it wants.
type Config struct {
	// Address of the hub, host:port.
	Address string
	// TLS holds the client certificate and the hub's roots.
	TLS *tls.Config
	// Renders are what the cluster wants; the Spoke owns them.
	Renders []*fleetv1.RenderSpec
	// Reconnect is the window over which a spoke comes back after a session.
	Reconnect time.Duration
	// Delivered is called with all content, before it is counted, by the goroutine that
	// receives; nil for nothing.
	Delivered func(*fleetv1.Deliver)
	// Tally counts what happens.
	Tally *Tally
}

// Spoke is one cluster.
type Spoke struct {
	cfg Config

	mu      sync.Mutex // guards what follows
	specs   map[string]*fleetv1.RenderSpec
	order   []string
	awaited map[string]chan struct{}
	outbox  chan *fleetv1.SessionRequest // of the session that is open; nil without
	end     context.CancelFunc           // ends the session that is open; nil without
}

// New returns a Spoke; Run connects it.
func New(cfg Config) *Spoke {
	s := &Spoke{cfg: cfg, specs: map[string]*fleetv1.RenderSpec{}, awaited: map[string]chan struct{}{}}
	for _, spec := range cfg.Renders {
		s.keep(spec)
	}
	return s
}

func name(ref *fleetv1.RenderRef) string { return ref.GetNamespace() + "/" + ref.GetName() }

// keep makes a spec part of the inventory.
func (s *Spoke) keep(spec *fleetv1.RenderSpec) {
	key := name(spec.GetRef())
	if _, known := s.specs[key]; !known {
		s.order = append(s.order, key)
	}
	s.specs[key] = spec
}

// Add makes a new Render and answers a channel that is closed when its content is
// there.
func (s *Spoke) Add(spec *fleetv1.RenderSpec) <-chan struct{} {
	s.mu.Lock()
	s.keep(spec)
	there := make(chan struct{})
	s.awaited[name(spec.GetRef())] = there
	outbox, copied := s.outbox, proto.CloneOf(spec)
	s.mu.Unlock()
	if outbox != nil {
		outbox <- &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: copied}}
	}
	return there
}

// Bounce ends the session that is open, as a network does; Run opens the next.
func (s *Spoke) Bounce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
	}
}

// Run holds sessions until the context ends.
func (s *Spoke) Run(ctx context.Context) error {
	for {
		err := s.connect(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // to be told to end is no failure
		}
		rest := s.cfg.Reconnect
		if err != nil {
			s.cfg.Tally.note(func(c *Counts) { c.Failures++ })
			rest = max(rest, failureRest)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryAfter(err) + rand.N(rest+1)): //nolint:gosec // G404: spreads load, guards nothing
		}
	}
}

// retryAfter is when the hub wants a spoke back that it put off.
func retryAfter(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// connect holds one session on a connection of its own, as an agent does: one that
// is kept would wait longer and longer to dial again.
func (s *Spoke) connect(ctx context.Context) error {
	conn, err := grpc.NewClient(s.cfg.Address, grpc.WithTransportCredentials(credentials.NewTLS(s.cfg.TLS)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	return s.session(ctx, fleetv1.NewSyncServiceClient(conn))
}
