package enroll_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

var (
	hub *testenv.Cluster
	// logged is all that the tests of the package log, at every level.
	logged transcript
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(funcr.New(func(prefix, args string) { logged.add(prefix + " " + args) }, funcr.Options{Verbosity: 9}))
	flag.Parse()
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		m.Run() // FuzzEnroll needs no API server, and there are many workers
		return
	}
	testenv.Main(m, func(c *testenv.Cluster) { hub = c }, testenv.WithoutControllers)
}

// transcript collects lines. It is safe for concurrent use.
type transcript struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *transcript) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// lifetime of the certificates of the tests.
const lifetime = time.Hour

// site is a hub that enrols.
type site struct {
	ca   *authority.Authority
	port *spoketest.Port
}

func newSite(t *testing.T) *site {
	t.Helper()
	ca := spoketest.Authority(t)
	service := enroll.New(enroll.Config{
		Signer: ca, TrustDomain: ca.TrustDomain(), Lifetime: lifetime, Now: time.Now,
		Registry: &registry.Registry{Reader: hub.Client, Status: hub.Client.Status(), Now: time.Now},
	})
	return &site{ca: ca, port: spoketest.Serve(t, ca, func(s *grpc.Server) { fleetv1.RegisterEnrollmentServiceServer(s, service) })}
}

// enroll calls the hub.
func (s *site) enroll(t *testing.T, req *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	t.Helper()
	return fleetv1.NewEnrollmentServiceClient(s.port.Dial(t, nil)).Enroll(t.Context(), req)
}

// cluster makes a SpokeCluster of a name of its own.
func cluster(t *testing.T, spec v1alpha1.SpokeClusterSpec) string {
	t.Helper()
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: spec}
	if err := hub.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c.Name
}

// joinable makes a SpokeCluster with a join token.
func joinable(t *testing.T, spec v1alpha1.SpokeClusterSpec, lives time.Duration) (name, token string) {
	t.Helper()
	token, hash := identity.NewJoinToken()
	spec.JoinToken = &v1alpha1.JoinToken{SHA256: hash, ExpiresAt: metav1.NewTime(time.Now().Add(lives))}
	return cluster(t, spec), token
}

// csr is a request for a key, signed by it.
func csr(tb testing.TB, key crypto.Signer, template *x509.CertificateRequest) []byte {
	tb.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

// audience is what a token for a cluster and a key must say.
func audience(tb testing.TB, name string, key crypto.Signer) string {
	tb.Helper()
	text, err := identity.TokenAudience(spoketest.TrustDomain, name, key.Public())
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// asking asks with a key and a ServiceAccount's token.
func asking(t *testing.T, name string, key crypto.Signer, token string) *fleetv1.EnrollRequest {
	t.Helper()
	return &fleetv1.EnrollRequest{
		Cluster: name, CsrDer: csr(t, key, &x509.CertificateRequest{}),
		Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: token},
	}
}

// proving asks with a new key and a good token of an issuer for it.
func proving(t *testing.T, name string, issuer *spoketest.Issuer) *fleetv1.EnrollRequest {
	t.Helper()
	key := spoketest.Key(t)
	return asking(t, name, key, issuer.Token(t, spoketest.Claims(audience(t, name, key))))
}

// joining asks as proving does, with a join token and the issuer's keys.
func joining(t *testing.T, name, token string, issuer *spoketest.Issuer) *fleetv1.EnrollRequest {
	t.Helper()
	req, keys := proving(t, name, issuer), issuer.Keys(t)
	req.Evidence = &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{
		Token: token, ServiceAccountToken: req.GetServiceAccountToken(),
		Keys: &fleetv1.ClusterKeys{Issuer: keys.Issuer, Jwks: []byte(keys.JWKS)},
	}}
	return req
}
