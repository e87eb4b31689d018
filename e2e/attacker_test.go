package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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
