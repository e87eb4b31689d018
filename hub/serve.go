package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

const (
	// maxReceive bounds a frame from a spoke: a page of an inventory is a quarter of
	// it at most.
	maxReceive = 1 << 20
	// maxHeader bounds the headers of a call, which carry nothing of ours.
	maxHeader = 16 << 10
	// readBuffer of a connection: its frames are small, and gRPC's own 32 KiB were a
	// tenth of the memory of a hub at rest.
	readBuffer = 4 << 10
	// maxStreams per connection: one session, the next one, and enrolments.
	maxStreams = 8
	// keepaliveInterval finds a dead connection also where heartbeats do not flow.
	keepaliveInterval, keepaliveTimeout, keepaliveMin = 30 * time.Second, 20 * time.Second, 10 * time.Second
	// handshakeTimeout and idleTimeout free the place of a connection that does not
	// get as far as TLS, or has no call: a spoke's has its session.
	handshakeTimeout, idleTimeout = 10 * time.Second, time.Minute
	// enrolTimeout is what an agent waits for an enrolment.
	enrolTimeout = 30 * time.Second
	// readyTimeout bounds one look at the caches, below a kubelet's own second.
	readyTimeout = 500 * time.Millisecond
	// drainPoll is how often a drain looks whether everybody left.
	drainPoll = 50 * time.Millisecond
)

// serving is the hub's one port.
type serving struct {
	listener net.Listener
	server   *grpc.Server
	sessions *syncserver.Server
	clusters *fleet.Fleet
	cache    cache.Cache
	serves   atomic.Bool
}

func newServing(cfg Config, p parts, hub cache.Cache) (*serving, error) {
	listener, err := net.Listen("tcp", cfg.ListenAddress) //nolint:noctx // bound once at start, closed by run
	if err != nil {
		return nil, err
	}
	ca := p.secrets.Authority
	peers := &peer.Verifier{Roots: ca.Roots, TrustDomain: ca.TrustDomain(), Now: time.Now}
	s := &serving{listener: listener, clusters: p.clusters, cache: hub, sessions: syncserver.New(syncserver.Config{
		Fleet: p.clusters, Mirror: p.mirrors, Registry: p.registry, Peers: peers, Bundle: ca.BundleDER,
		Hub: cfg.Replica, Audit: p.audits, Observer: p.deliveries, Heartbeat: cfg.Heartbeat, MaxAge: cfg.SessionAge,
	})}
	s.server = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(serverTLS(authority.NewServerCertificate(ca, serverNames(cfg))))),
		grpc.MaxRecvMsgSize(maxReceive), grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout), grpc.ReadBufferSize(readBuffer), grpc.InTapHandle(enrolWithin(enrolTimeout)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveInterval, Timeout: keepaliveTimeout, MaxConnectionIdle: idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMin, PermitWithoutStream: true}),
	)
	fleetv1.RegisterSyncServiceServer(s.server, s.sessions)
	fleetv1.RegisterEnrollmentServiceServer(s.server, enroll.New(enroll.Config{
		Signer: ca, Registry: p.registry, TrustDomain: ca.TrustDomain(), Lifetime: cfg.CertificateLifetime, Now: time.Now, Audit: p.audits,
	}))
	return s, nil
}

// serverNames are those in the hub's certificate.
func serverNames(cfg Config) []string {
	return append([]string{DefaultServerName}, cfg.ServerNames...)
}

// enrolWithin bounds an enrolment from its headers on: a message that never comes would
// hold a connection for ever. A session has bounds of its own.
func enrolWithin(timeout time.Duration) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if call.FullMethodName != fleetv1.EnrollmentService_Enroll_FullMethodName {
			return ctx, nil
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		context.AfterFunc(ctx, cancel)
		return ctx, nil
	}
}

// serverTLS asks for a client certificate and leaves its check to package peer,
// which can say why it is refused.
func serverTLS(cert *authority.ServerCertificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: cert.Get, GetConfigForClient: newHandshakes().admit,
		ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
	}
}

// run serves until the context ends.
func (s *serving) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(bounded(s.listener)) }()
	s.serves.Store(true)
	defer s.serves.Store(false)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		s.server.Stop()
		return <-served
	}
}

// drain asks every spoke to leave within a window and waits until all did, or the
// window and as much again is over.
func (s *serving) drain(ctx context.Context, window time.Duration) {
	s.sessions.Drain(window)
	ctx, cancel := context.WithTimeout(ctx, 2*window)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for len(s.clusters.Clusters()) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ready is the readiness check: the port is served, and every cache the hub answers
// from is synced. A right that is missing shows here.
func (s *serving) ready(req *http.Request) error {
	if !s.serves.Load() {
		return errors.New("not serving yet")
	}
	ctx, cancel := context.WithTimeout(req.Context(), readyTimeout)
	defer cancel()
	if !s.cache.WaitForCacheSync(ctx) {
		return errors.New("the caches of the hub's cluster are not synced: see the log for what may not be listed")
	}
	return nil
}
