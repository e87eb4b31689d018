package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// verdict is what a peer reads from an error.
type verdict struct {
	code   codes.Code
	reason string
}

func verdictOf(err error) verdict {
	st := status.Convert(err)
	v := verdict{code: st.Code()}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == identity.ErrorDomain {
			v.reason = info.GetReason()
		}
	}
	return v
}

// register accepts a cluster that has no agent.
func register(t *testing.T, name string) *v1alpha1.SpokeCluster {
	t.Helper()
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	create(t, fleet.Hub.Cluster, c)
	return c
}

func configMap(namespace, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{key: value}}
}

func secret(namespace, name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{key: value}}
}

// objectName makes the name of an object from a title.
func objectName(title string) string {
	return strings.Trim(strings.Map(func(char rune) rune {
		if (char >= 'a' && char <= 'z') || (char >= '0' && char <= '9') {
			return char
		}
		return '-'
	}, strings.ToLower(title)), "-")
}

// forger holds the key of a certificate authority and signs what it is told to.
type forger struct {
	pair   *tls.Certificate
	behind [][]byte // what is sent behind its certificates
}

// hubRoot is the hub's own root: who has it can be any cluster, and nothing more.
func hubRoot(t *testing.T) *forger {
	t.Helper()
	ca := &corev1.Secret{}
	if err := fleet.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: stage.Namespace, Name: "dynamic-config-hub-ca"}, ca); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(ca.Data["tls.crt"], ca.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return &forger{pair: &pair}
}

// newForger makes a root that is nobody's.
func newForger(t *testing.T) *forger {
	t.Helper()
	key := newKey(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Dynamic Config Fleet hub CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	return &forger{pair: sign(t, root, root, key, key)}
}

// below is an authority whose certificate the forger signed.
func (f *forger) below(t *testing.T, name string) *forger {
	t.Helper()
	pair := f.forge(t, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		c.Subject = pkix.Name{CommonName: "below"}
	}, name)
	return &forger{pair: pair, behind: [][]byte{pair.Certificate[0]}}
}

// forge certifies a new key for clusters, as edit changes the template.
func (f *forger) forge(t *testing.T, edit func(*x509.Certificate), clusters ...string) *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, name := range clusters {
		template.URIs = append(template.URIs, &url.URL{Scheme: "spiffe", Host: identity.DefaultTrustDomain, Path: "/spoke/" + name})
	}
	if edit != nil {
		edit(template)
	}
	pair := sign(t, template, f.pair.Leaf, newKey(t), f.pair.PrivateKey)
	pair.Certificate = append(pair.Certificate, f.behind...)
	return pair
}

func serverAuth(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer any) *tls.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// attackerStream is a session that says what it likes.
type attackerStream struct {
	fleetv1.SyncService_SessionClient
}

// openSession opens a session with an empty inventory, and says why where it cannot.
func openSession(t *testing.T, certificate *tls.Certificate) (*attackerStream, error) {
	t.Helper()
	stream, err := fleetv1.NewSyncServiceClient((&recorder{}).dial(t, certificate)).Session(t.Context())
	if err != nil {
		return nil, err
	}
	// What is sent on a stream that is refused is lost; Recv says why it was.
	for _, frame := range []*fleetv1.SessionRequest{
		{Frame: &fleetv1.SessionRequest_Hello{Hello: &fleetv1.Hello{ProtocolVersion: 1, Agent: &fleetv1.Agent{Version: "env=prod", Instance: "env=prod"}}}},
		{Frame: &fleetv1.SessionRequest_Inventory{Inventory: &fleetv1.InventoryPage{InventoryId: 1, Last: true}}},
	} {
		if err := stream.Send(frame); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	frame, err := stream.Recv()
	if err == nil && frame.GetWelcome() == nil {
		t.Fatalf("the first frame is %v", frame)
	}
	return &attackerStream{stream}, err
}

// ask asks for a document and returns the answer.
func (s *attackerStream) ask(t *testing.T, spec *fleetv1.RenderSpec) *fleetv1.SessionResponse {
	t.Helper()
	if err := s.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: spec}}); err != nil {
		t.Fatal(err)
	}
	return s.answer(t, spec.GetRef().GetName())
}

// answer is the next one to a Render of a name; a delivery is acknowledged.
func (s *attackerStream) answer(t *testing.T, name string) *fleetv1.SessionResponse {
	t.Helper()
	for {
		frame, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if frame.GetHeartbeat() != nil {
			s.beat(t)
		}
		d := frame.GetDeliver()
		if d.GetRef().GetName() != name && frame.GetRefusal().GetRef().GetName() != name {
			continue
		}
		if d != nil {
			result := &fleetv1.DeliveryResult{Nonce: d.GetNonce(), Ref: d.GetRef(), Generation: d.GetGeneration(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId()}
			if err := s.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: result}}); err != nil {
				t.Fatal(err)
			}
		}
		return frame
	}
}

// end waits until the hub ends the session, and returns why.
func (s *attackerStream) end(t *testing.T) error {
	t.Helper()
	for {
		frame, err := s.Recv()
		if err != nil {
			return err
		}
		if frame.GetHeartbeat() != nil {
			s.beat(t)
		}
	}
}

func (s *attackerStream) beat(t *testing.T) {
	t.Helper()
	beat := &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{}}}
	if err := s.Send(beat); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
