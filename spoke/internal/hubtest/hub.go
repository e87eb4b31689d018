// Package hubtest is a hub for tests of the agent: it speaks the real protocol
// over TLS on loopback, signs real certificates, and does what a test says.
//
// A Hub alone only accepts: the test reads and writes the frames of each Session.
// A Store on top of it answers every Render from documents that the test sets.
package hubtest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// ServerName is the name in the hub's certificate.
const ServerName = "dynamic-config-hub"

// ownLifetime is that of the hub's own certificates, beyond what any test plays.
const ownLifetime = 48 * time.Hour

// heartbeat is the interval in the Welcome.
const heartbeat = 10 * time.Second

// Token is the join token that the hub accepts once.
const Token = "join-token-of-the-test"

// Hub is a running hub.
type Hub struct {
	fleetv1.UnimplementedEnrollmentServiceServer
	fleetv1.UnimplementedSyncServiceServer

	// Address is its host:port, CAFile its root in PEM.
	Address, CAFile string

	// memory takes the place of the network; nil for none.
	memory   *memory
	caKey    *ecdsa.PrivateKey
	ca       *x509.Certificate
	sessions chan *Session
	server   *grpc.Server

	mu       sync.Mutex // guards what follows
	settings Settings
	joined   bool
	rejected int
	enrolled []*fleetv1.EnrollRequest
}

// Settings are what a Hub does; they may change while it runs.
type Settings struct {
	// RenewAfter is when an agent should enrol again; half an hour when zero.
	RenewAfter time.Duration
	// Lifetime of certificates; an hour when zero.
	Lifetime time.Duration
	// UnknownKeys asks for the join token at the first contact.
	UnknownKeys bool
	// LoseJoin loses the answer to the join.
	LoseJoin bool
	// Welcome is sent in place of this hub's own.
	Welcome *fleetv1.Welcome
	// Silent sends no heartbeats.
	Silent bool
	// Reject answers sessions with this error.
	Reject error
}

// Start starts a hub that stops when the test ends.
func Start(tb testing.TB, settings Settings) *Hub {
	tb.Helper()
	return start(tb, &Hub{settings: settings})
}

func start(tb testing.TB, h *Hub) *Hub {
	tb.Helper()
	h.sessions = make(chan *Session, 16)
	h.makeCA(tb)
	h.serve(tb, "127.0.0.1:0")
	tb.Cleanup(h.Stop)
	return h
}

// Stop stops the hub as a crash would; Restart starts it again.
func (h *Hub) Stop() { h.server.Stop() }

// Restart stops the hub as a crash would and starts it again on its address.
func (h *Hub) Restart(tb testing.TB) {
	tb.Helper()
	h.server.Stop()
	h.serve(tb, h.Address)
}

// Configure changes the settings.
func (h *Hub) Configure(change func(*Settings)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.settings)
}

// listen opens the hub's port.
func (h *Hub) listen(ctx context.Context, address string) (net.Listener, error) {
	if h.memory != nil {
		return h.memory.listen(), nil
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// Enrolments returns the requests so far.
func (h *Hub) Enrolments() []*fleetv1.EnrollRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*fleetv1.EnrollRequest(nil), h.enrolled...)
}

// Rejections is how many sessions were refused.
func (h *Hub) Rejections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected
}

func (h *Hub) current() Settings {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.settings
}

// Denied is an error as a hub answers it.
func Denied(code codes.Code, reason string) error {
	s, err := status.New(code, "refused").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "dynamic-config.rs"})
	if err != nil {
		return err
	}
	return s.Err()
}

func (h *Hub) serve(tb testing.TB, address string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := h.sign(&x509.Certificate{
		DNSNames: []string{ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &key.PublicKey, ownLifetime)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := h.listen(tb.Context(), address)
	if err != nil {
		tb.Fatal(err)
	}
	h.Address = listener.Addr().String()
	h.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})))
	fleetv1.RegisterEnrollmentServiceServer(h.server, h)
	fleetv1.RegisterSyncServiceServer(h.server, h)
	go func(server *grpc.Server) {
		_ = server.Serve(listener) // ends with Stop
	}(h.server)
}

// Session greets and hands the stream to the test.
func (h *Hub) Session(stream grpc.BidiStreamingServer[fleetv1.SessionRequest, fleetv1.SessionResponse]) error {
	cluster, err := h.identify(stream.Context())
	if err != nil {
		return err
	}
	settings := h.current()
	if settings.Reject != nil {
		h.mu.Lock()
		h.rejected++
		h.mu.Unlock()
		return settings.Reject
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s := &Session{
		Cluster: cluster, Hello: first.GetHello(), stream: stream,
		frames: make(chan *fleetv1.SessionRequest, 4096), end: make(chan error, 1), Over: make(chan struct{}),
	}
	welcome := cmp.Or(settings.Welcome, &fleetv1.Welcome{
		ProtocolVersion: 1, Hub: "test", Epoch: 1, ServerTime: timestamppb.Now(),
		HeartbeatInterval: durationpb.New(heartbeat), TrustBundleDer: [][]byte{h.ca.Raw},
	})
	s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Welcome{Welcome: welcome}})
	h.sessions <- s
	if settings.Silent {
		return s.serve(nil)
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	return s.serve(ticker.C)
}
