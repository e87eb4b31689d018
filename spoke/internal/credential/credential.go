package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"dynamic-config.rs/fleet/internal/identity"
)

// Credential is what the agent proves itself with, and what it accepts.
type Credential struct {
	key   *ecdsa.PrivateKey
	chain []*x509.Certificate
	// TrustBundle are the roots that the hub named, current and coming.
	TrustBundle []*x509.Certificate
}

// Cluster is the cluster that the certificate names; empty for none.
func (c *Credential) Cluster() string {
	leaf := c.chain[0]
	if len(leaf.URIs) != 1 {
		return ""
	}
	// Its trust domain is the hub's to judge.
	cluster, err := identity.ClusterOf(leaf, leaf.URIs[0].Host)
	if err != nil {
		return ""
	}
	return cluster
}

// NewKey makes a P-256 key.
func NewKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// Request makes a certificate request, PKCS #10 in DER, for a key. It names
// nobody: the hub decides whose it is.
func Request(key crypto.Signer) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// New puts together a key and what the hub answered: a chain, leaf first, and
// roots, both in DER. It fails when the certificate is not for the key.
func New(key *ecdsa.PrivateKey, chainDER, bundleDER [][]byte) (*Credential, error) {
	chain, err := parseAll(chainDER)
	if err != nil {
		return nil, fmt.Errorf("certificate chain: %w", err)
	}
	bundle, err := parseAll(bundleDER)
	if err != nil {
		return nil, fmt.Errorf("trust bundle: %w", err)
	}
	if len(chain) == 0 {
		return nil, errors.New("certificate chain is empty")
	}
	if !key.PublicKey.Equal(chain[0].PublicKey) {
		return nil, errors.New("the certificate is for another key")
	}
	return &Credential{key: key, chain: chain, TrustBundle: bundle}, nil
}

// ParseBundle reads roots in DER.
func ParseBundle(bundleDER [][]byte) ([]*x509.Certificate, error) { return parseAll(bundleDER) }

// ValidAt says whether the certificate is valid at a time.
func (c *Credential) ValidAt(t time.Time) bool {
	return !t.Before(c.chain[0].NotBefore) && t.Before(c.chain[0].NotAfter)
}

// NotAfter is when the certificate ends.
func (c *Credential) NotAfter() time.Time { return c.chain[0].NotAfter }

// RenewAt is half of the certificate's life: a hub that is away for as long as
// the other half locks nobody out.
func (c *Credential) RenewAt() time.Time {
	leaf := c.chain[0]
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
}

// TLS returns the certificate for a TLS client.
func (c *Credential) TLS() tls.Certificate {
	certificate := tls.Certificate{PrivateKey: c.key, Leaf: c.chain[0]}
	for _, part := range c.chain {
		certificate.Certificate = append(certificate.Certificate, part.Raw)
	}
	return certificate
}

// SameBundle says whether the trust bundle holds exactly these roots.
func (c *Credential) SameBundle(roots []*x509.Certificate) bool {
	if len(roots) != len(c.TrustBundle) {
		return false
	}
	for i, root := range roots {
		if !root.Equal(c.TrustBundle[i]) {
			return false
		}
	}
	return true
}

// WithBundle returns the credential with other roots.
func (c *Credential) WithBundle(roots []*x509.Certificate) *Credential {
	return &Credential{key: c.key, chain: c.chain, TrustBundle: roots}
}

// parseAll reads certificates in DER.
func parseAll(all [][]byte) ([]*x509.Certificate, error) {
	certificates := make([]*x509.Certificate, 0, len(all))
	for _, der := range all {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
	return certificates, nil
}
