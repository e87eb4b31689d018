package fakespoke

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/internal/identity"
)

// caSecret is the hub's own authority, which an administrator of its cluster can read.
const caSecret = "dynamic-config-hub-ca"

// Signer gives fake spokes certificates of the hub's authority, without enrolling.
type Signer struct {
	root  tls.Certificate
	roots *x509.CertPool
}

// NewSigner reads the authority of the hub in a namespace with an administrator's client.
func NewSigner(ctx context.Context, hub client.Client, namespace string) (*Signer, error) {
	secret := &corev1.Secret{}
	if err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: caSecret}, secret); err != nil {
		return nil, err
	}
	root, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	s := &Signer{root: root, roots: x509.NewCertPool()}
	s.roots.AddCert(root.Leaf)
	return s, nil
}

// Client is the TLS configuration of one cluster.
func (s *Signer) Client(cluster string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(12 * time.Hour),
		URIs:        []*url.URL{identity.SpokeURI(identity.DefaultTrustDomain, cluster)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, s.root.Leaf, key.Public(), s.root.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: s.roots, ServerName: "dynamic-config-hub",
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, nil
}
