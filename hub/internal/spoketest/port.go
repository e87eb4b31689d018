// Package spoketest serves a hub's port over loopback and calls it as a spoke would:
// real TLS, real gRPC, a real authority. It is for tests of the packages behind that
// port.
package spoketest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/internal/identity"
)

// TrustDomain of the authorities and their certificates.
const TrustDomain = "fleet.example"

// serverName is in the hub's certificate and what spokes ask for.
const serverName = "hub.example"

// Authority makes a root of its own.
func Authority(tb testing.TB) *authority.Authority {
	tb.Helper()
	cert, key, err := authority.NewRoot(time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	ca, err := authority.New(TrustDomain, cert, key, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

// Port is a hub's port.
type Port struct {
	address string
	roots   *x509.CertPool
}

// Serve opens a port that stops when the test ends.
func Serve(tb testing.TB, ca *authority.Authority, register func(*grpc.Server)) *Port {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
		GetCertificate: authority.NewServerCertificate(ca, []string{serverName}).Get,
	})))
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // Stop ends it
	tb.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return &Port{address: listener.Addr().String(), roots: ca.Roots()}
}

// Dial connects with a client certificate, or without one when cert is nil. The
// connection closes when the test ends.
func (p *Port) Dial(tb testing.TB, cert *tls.Certificate) *grpc.ClientConn {
	tb.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: p.roots, ServerName: serverName}
	if cert != nil {
		// Sent whatever the server asks for: it is the server that is tested.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	conn, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() }) // a test may close it before
	return conn
}

// Key makes a key as a spoke does.
func Key(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// Certificate is a cluster's client certificate, from now on.
func Certificate(tb testing.TB, ca *authority.Authority, cluster string, lifetime time.Duration) *tls.Certificate {
	tb.Helper()
	key := Key(tb)
	cert, err := ca.SignSpoke(key.Public(), cluster, time.Now(), lifetime)
	if err != nil {
		tb.Fatal(err)
	}
	return Pair(key, cert)
}

// Pair joins a key and its certificate.
func Pair(key crypto.Signer, cert *x509.Certificate) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Verdict is what a peer reads from an error: its gRPC code, and the reason in the
// ErrorInfo of this product.
type Verdict struct {
	Code   codes.Code
	Reason string
}

// VerdictOf reads a status. The reason is empty where there is no ErrorInfo of this
// product.
func VerdictOf(err error) Verdict {
	st := status.Convert(err)
	v := Verdict{Code: st.Code()}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == identity.ErrorDomain {
			v.Reason = info.GetReason()
		}
	}
	return v
}
