// Package hubtest is a hub for tests of the agent: it speaks the real protocol
// over TLS on loopback, signs real certificates, and does what a test says.
//
// A Hub alone only accepts: the test reads and writes the frames of each Session.
// A Store on top of it answers every Render from documents that the test sets.
package hubtest

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// ServerName is the name in the hub's certificate.
const ServerName = "dynamic-config-hub"

// Token is the join token that the hub accepts once.
const Token = "join-token-of-the-test"

// Hub is a running hub.
type Hub struct {
	fleetv1.UnimplementedEnrollmentServiceServer
	fleetv1.UnimplementedSyncServiceServer

	// Address is its host:port, CAFile its root in PEM.
	Address, CAFile string

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
	// Heartbeat is the interval in the Welcome; 10 s when zero.
	Heartbeat time.Duration
	// RenewAfter is when an agent should enrol again; half an hour when zero.
	RenewAfter time.Duration
	// Lifetime of certificates; an hour when zero.
	Lifetime time.Duration
	// UnknownKeys asks for the join token at the first contact.
	UnknownKeys bool
	// LoseJoin loses the answer to the join.
	LoseJoin bool
	// Silent sends no heartbeats.
	Silent bool
	// Reject answers sessions with this error.
	Reject error
}

// Start starts a hub that stops when the test ends.
func Start(tb testing.TB, settings Settings) *Hub {
	tb.Helper()
	h := &Hub{sessions: make(chan *Session, 16), settings: settings}
	h.makeCA(tb)
	h.serve(tb, "127.0.0.1:0")
	tb.Cleanup(func() { h.server.Stop() })
	return h
}

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

func (h *Hub) makeCA(tb testing.TB) {
	tb.Helper()
	var err error
	if h.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub CA of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &h.caKey.PublicKey, h.caKey)
	if err != nil {
		tb.Fatal(err)
	}
	if h.ca, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	h.CAFile = filepath.Join(tb.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(h.CAFile, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// sign signs a certificate for a key.
func (h *Hub) sign(template *x509.Certificate, key any, lifetime time.Duration) ([]byte, error) {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Second)
	template.NotAfter = time.Now().Add(lifetime)
	return x509.CreateCertificate(rand.Reader, template, h.ca, key, h.caKey)
}

func (h *Hub) serve(tb testing.TB, address string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := h.sign(&x509.Certificate{
		DNSNames: []string{ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &key.PublicKey, time.Hour)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address)
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

// Enroll signs for a ServiceAccount's token that is bound to the key, if the cluster's
// keys are known or a join token comes with them.
func (h *Hub) Enroll(_ context.Context, request *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enrolled = append(h.enrolled, request)
	csr, err := x509.ParseCertificateRequest(request.GetCsrDer())
	if err != nil || csr.CheckSignature() != nil {
		return nil, Denied(codes.InvalidArgument, "RequestInvalid")
	}
	if err := h.judge(request, csr.PublicKey); err != nil {
		return nil, err
	}
	renewAfter := cmp.Or(h.settings.RenewAfter, 30*time.Minute)
	der, err := h.sign(&x509.Certificate{
		URIs:        []*url.URL{identity.SpokeURI(identity.DefaultTrustDomain, request.GetCluster())},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, csr.PublicKey, cmp.Or(h.settings.Lifetime, time.Hour))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &fleetv1.EnrollResponse{
		ChainDer: [][]byte{der}, TrustBundleDer: [][]byte{h.ca.Raw},
		ServerTime: timestamppb.New(now), RenewAfter: timestamppb.New(now.Add(renewAfter)),
	}, nil
}

// judge refuses evidence. It reads what a token is for, and does not verify it.
func (h *Hub) judge(request *fleetv1.EnrollRequest, key crypto.PublicKey) error {
	token, join := request.GetServiceAccountToken(), request.GetJoinToken()
	known := h.joined || !h.settings.UnknownKeys
	if join != nil {
		token, known = join.GetServiceAccountToken(), join.GetToken() == Token && len(join.GetKeys().GetJwks()) > 0 && !h.joined
	}
	want, err := identity.TokenAudience(identity.DefaultTrustDomain, request.GetCluster(), key)
	if err != nil {
		return err
	}
	if !known || !slices.Equal(audienceOf(token), []string{want}) {
		return Denied(codes.PermissionDenied, identity.ReasonEvidenceInvalid)
	}
	if join != nil {
		h.joined = true
		if h.settings.LoseJoin {
			return Denied(codes.Unavailable, "")
		}
	}
	return nil
}

// Proof is a token for an audience that this hub accepts, and no other would.
func Proof(audience string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["`+audience+`"]}`)) + ".c2ln"
}

// audienceOf is what a token says it is for.
func audienceOf(token string) []string {
	var claims struct {
		Audience []string `json:"aud"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return nil
	}
	return claims.Audience
}

// identify is the cluster of the connection's certificate.
func (h *Hub) identify(ctx context.Context) (string, error) {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return "", Denied(codes.Unauthenticated, "CertificateMissing")
	}
	leaf := info.State.PeerCertificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(h.ca)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return "", Denied(codes.Unauthenticated, "CertificateInvalid")
	}
	return filepath.Base(leaf.URIs[0].Path), nil
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
	if settings.Heartbeat == 0 {
		settings.Heartbeat = 10 * time.Second
	}
	s := &Session{
		Cluster: cluster, Hello: first.GetHello(), stream: stream,
		frames: make(chan *fleetv1.SessionRequest, 4096), end: make(chan error, 1), Over: make(chan struct{}),
	}
	s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Welcome{Welcome: &fleetv1.Welcome{
		ProtocolVersion: 1, Hub: "test", Epoch: 1, ServerTime: timestamppb.Now(),
		HeartbeatInterval: durationpb.New(settings.Heartbeat), TrustBundleDer: [][]byte{h.ca.Raw},
	}}})
	h.sessions <- s
	if settings.Silent {
		return s.serve(nil)
	}
	ticker := time.NewTicker(settings.Heartbeat)
	defer ticker.Stop()
	return s.serve(ticker.C)
}
