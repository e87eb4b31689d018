package peer_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// whoAmI answers every call with the peer's identity or the refusal of it.
type whoAmI struct {
	fleetv1.UnimplementedEnrollmentServiceServer
	peers *peer.Verifier
	seen  peer.Identity
}

func (w *whoAmI) Enroll(ctx context.Context, _ *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	var err error
	w.seen, err = w.peers.Identify(ctx)
	return &fleetv1.EnrollResponse{}, peer.Status(err)
}

// root is an authority whose key the test holds too, to sign what an authority
// would not.
type root struct {
	certPEM, keyPEM []byte
	pair            tls.Certificate
}

func newRoot(t *testing.T) *root {
	t.Helper()
	cert, key, err := authority.NewRoot(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &root{certPEM: cert, keyPEM: key, pair: pair}
}

// sign certifies a new key for URIs, as edit changes the template.
func (r *root) sign(t *testing.T, edit func(*x509.Certificate), uris ...string) *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, raw := range uris {
		uri, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	if edit != nil {
		edit(template)
	}
	key := spoketest.Key(t)
	der, err := x509.CreateCertificate(rand.Reader, template, r.pair.Leaf, key.Public(), r.pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return spoketest.Pair(key, cert)
}

func TestVerifier_Identify(t *testing.T) {
	const uri = "spiffe://fleet.example/spoke/prod"
	own, next, foreign := newRoot(t), newRoot(t), newRoot(t)
	ca, err := authority.New(spoketest.TrustDomain, own.certPEM, own.keyPEM, next.certPEM)
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.SignServer([]string{"hub.example"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	service := &whoAmI{peers: &peer.Verifier{Roots: ca.Roots, TrustDomain: ca.TrustDomain(), Now: time.Now}}
	port := spoketest.Serve(t, ca, func(s *grpc.Server) { fleetv1.RegisterEnrollmentServiceServer(s, service) })

	missing := spoketest.Verdict{Code: codes.Unauthenticated, Reason: identity.ReasonCertificateMissing}
	expired := spoketest.Verdict{Code: codes.Unauthenticated, Reason: identity.ReasonCertificateExpired}
	invalid := spoketest.Verdict{Code: codes.Unauthenticated, Reason: identity.ReasonCertificateInvalid}
	ok := spoketest.Verdict{Code: codes.OK}
	for name, tc := range map[string]struct {
		cert    *tls.Certificate
		want    spoketest.Verdict
		cluster string
	}{
		"a certificate of this hub names its cluster":     {own.sign(t, nil, uri), ok, "prod"},
		"a certificate of the coming root counts already": {next.sign(t, nil, uri), ok, "prod"},
		"a prefix of another name is only itself":         {own.sign(t, nil, "spiffe://fleet.example/spoke/pro"), ok, "pro"},
		"a connection without a certificate is nobody":    {nil, missing, ""},
		"an expired certificate is told apart":            {own.sign(t, between(-2*time.Hour, -time.Hour), uri), expired, ""},
		"a certificate that has not begun counts as such": {own.sign(t, between(time.Hour, 2*time.Hour), uri), expired, ""},
		"a certificate of a foreign root is nobody":       {foreign.sign(t, nil, uri), invalid, ""},
		"the hub's own server certificate is no client's": {server, invalid, ""},
		"two clusters in one certificate are nobody":      {own.sign(t, nil, uri, "spiffe://fleet.example/spoke/dev"), invalid, ""},
		"a certificate without a name is nobody":          {own.sign(t, nil), invalid, ""},
		"a cluster of another trust domain is nobody":     {own.sign(t, nil, "spiffe://other.example/spoke/prod"), invalid, ""},
		"a name with more behind it is nobody":            {own.sign(t, nil, uri+"/more"), invalid, ""},
		"an identity that is no spoke's is nobody":        {own.sign(t, nil, "spiffe://fleet.example/hub/prod"), invalid, ""},
		"a DNS name beside the identity is refused":       {own.sign(t, func(c *x509.Certificate) { c.DNSNames = []string{"prod"} }, uri), invalid, ""},
		"the root itself is nobody":                       {&own.pair, invalid, ""},
		"a root cannot lend its power to an intermediate": {belowIntermediate(t, own, uri), invalid, ""},
	} {
		t.Run(name, func(t *testing.T) {
			service.seen = peer.Identity{}
			_, err := fleetv1.NewEnrollmentServiceClient(port.Dial(t, tc.cert)).Enroll(t.Context(), &fleetv1.EnrollRequest{})
			if got := spoketest.VerdictOf(err); got != tc.want {
				t.Errorf("verdict %+v, want %+v (%v)", got, tc.want, err)
			}
			if service.seen.Cluster != tc.cluster {
				t.Errorf("cluster %q, want %q", service.seen.Cluster, tc.cluster)
			}
			if tc.cluster != "" && !service.seen.NotAfter.Equal(tc.cert.Leaf.NotAfter) {
				t.Errorf("identity holds until %v, the certificate until %v", service.seen.NotAfter, tc.cert.Leaf.NotAfter)
			}
		})
	}
}

// confirmer answers whether who called first may still call.
type confirmer struct {
	fleetv1.UnimplementedEnrollmentServiceServer
	peers *peer.Verifier
	seen  peer.Identity
}

func (c *confirmer) Enroll(ctx context.Context, _ *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	got, err := c.peers.Confirm(ctx, c.seen)
	if err == nil {
		c.seen = got
	}
	return &fleetv1.EnrollResponse{}, peer.Status(err)
}

func TestVerifier_Confirm(t *testing.T) {
	own, other := newRoot(t), newRoot(t)
	ca, err := authority.New(spoketest.TrustDomain, own.certPEM, own.keyPEM, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		roots  *x509.CertPool // from then on; nil for the same
		passed time.Duration
		want   string
	}{
		"a certificate that was verified stays so":         {nil, 0, ""},
		"one whose root is among others by now stays so":   {pool(own, other), 0, ""},
		"one whose root was retired counts no more":        {pool(other), 0, identity.ReasonCertificateInvalid},
		"one that is over counts no more":                  {nil, 2 * time.Hour, identity.ReasonCertificateExpired},
		"one that is over counts no more after a rotation": {pool(own, other), 2 * time.Hour, identity.ReasonCertificateExpired},
	} {
		t.Run(name, func(t *testing.T) {
			roots, passed := ca.Roots(), time.Duration(0)
			service := &confirmer{peers: &peer.Verifier{
				Roots:       func() *x509.CertPool { return roots },
				TrustDomain: ca.TrustDomain(), Now: func() time.Time { return time.Now().Add(passed) },
			}}
			port := spoketest.Serve(t, ca, func(s *grpc.Server) { fleetv1.RegisterEnrollmentServiceServer(s, service) })
			client := fleetv1.NewEnrollmentServiceClient(port.Dial(t, own.sign(t, nil, "spiffe://fleet.example/spoke/prod")))
			if _, err := client.Enroll(t.Context(), &fleetv1.EnrollRequest{}); err != nil || service.seen.Cluster != "prod" {
				t.Fatalf("the first call: %+v, %v", service.seen, err)
			}
			roots, passed = cmp.Or(tc.roots, roots), tc.passed
			_, err := client.Enroll(t.Context(), &fleetv1.EnrollRequest{})
			if got := spoketest.VerdictOf(err).Reason; got != tc.want {
				t.Errorf("reason %q, want %q (%v)", got, tc.want, err)
			}
			if service.seen.Cluster != "prod" {
				t.Errorf("the cluster became %q", service.seen.Cluster)
			}
		})
	}
}

func pool(roots ...*root) *x509.CertPool {
	p := x509.NewCertPool()
	for _, r := range roots {
		p.AppendCertsFromPEM(r.certPEM)
	}
	return p
}

func between(from, to time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to) }
}

func belowIntermediate(t *testing.T, r *root, uri string) *tls.Certificate {
	t.Helper()
	middle := r.sign(t, func(c *x509.Certificate) { c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil })
	leaf := (&root{pair: *middle}).sign(t, nil, uri)
	leaf.Certificate = append(leaf.Certificate, middle.Leaf.Raw)
	return leaf
}

func TestVerifier_Identify_WithoutAConnection(t *testing.T) {
	_, err := (&peer.Verifier{Now: time.Now}).Identify(t.Context())
	if got := spoketest.VerdictOf(peer.Status(err)); got.Reason != identity.ReasonCertificateMissing {
		t.Errorf("verdict %+v", got)
	}
}

// Every reason has a code: an error that became OK would end a stream as if all were
// well.
func TestStatus_EveryReason(t *testing.T) {
	for reason, code := range map[string]codes.Code{
		identity.ReasonRequestInvalid:     codes.InvalidArgument,
		identity.ReasonNameInvalid:        codes.InvalidArgument,
		identity.ReasonEvidenceInvalid:    codes.PermissionDenied,
		identity.ReasonNotAccepted:        codes.FailedPrecondition,
		identity.ReasonSuspended:          codes.FailedPrecondition,
		identity.ReasonUnknownCluster:     codes.PermissionDenied,
		identity.ReasonCertificateMissing: codes.Unauthenticated,
		identity.ReasonCertificateExpired: codes.Unauthenticated,
		identity.ReasonCertificateInvalid: codes.Unauthenticated,
		identity.ReasonSuperseded:         codes.Aborted,
		identity.ReasonHeartbeatMissed:    codes.DeadlineExceeded,
		identity.ReasonSendBlocked:        codes.DeadlineExceeded,
		identity.ReasonSessionAged:        codes.Aborted,
		identity.ReasonDraining:           codes.Unavailable,
		identity.ReasonTooManyRenders:     codes.ResourceExhausted,
		identity.ReasonTooManyRequests:    codes.ResourceExhausted,
		identity.ReasonUnavailable:        codes.Unavailable,
	} {
		err := peer.Status(fmt.Errorf("wrapped: %w", &identity.Error{Reason: reason, Message: "m"}))
		if got := spoketest.VerdictOf(err); got != (spoketest.Verdict{Code: code, Reason: reason}) {
			t.Errorf("%s: verdict %+v, want code %s", reason, got, code)
		}
	}
}

func TestStatus(t *testing.T) {
	if peer.Status(nil) != nil {
		t.Error("no error became a status")
	}
	err := peer.Status(errors.New("dial tcp 10.0.0.7:6443: connection refused"))
	if got := spoketest.VerdictOf(err); got != (spoketest.Verdict{Code: codes.Unavailable, Reason: identity.ReasonUnavailable}) {
		t.Errorf("an untyped error: verdict %+v", got)
	}
	if strings.Contains(err.Error(), "10.0.0.7") {
		t.Errorf("the text of an untyped error leaves the hub: %v", err)
	}
	st := status.Convert(peer.Status(&identity.Error{Reason: identity.ReasonTooManyRequests, RetryAfter: time.Second}))
	if !slices.ContainsFunc(st.Details(), func(detail any) bool {
		retry, ok := detail.(*errdetails.RetryInfo)
		return ok && retry.GetRetryDelay().AsDuration() == time.Second
	}) {
		t.Errorf("it does not say when to try again: %v", st.Details())
	}
	if st := status.Convert(peer.Status(&identity.Error{Reason: "Invented"})); st.Code() != codes.Internal {
		t.Errorf("a reason without a code: %v", st)
	}
}
