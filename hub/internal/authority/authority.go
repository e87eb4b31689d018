package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"dynamic-config.rs/fleet/internal/identity"
)

const (
	// rootLifetime is long: a root is rotated by adding another, not by expiry.
	rootLifetime = 10 * 365 * 24 * time.Hour
	// backdate covers clocks that differ between hub and spokes.
	backdate = 5 * time.Minute
	// DefaultSpokeLifetime is how long a spoke's certificate holds: a day, so that a
	// stolen key is worth little and a hub may be away for half of it.
	DefaultSpokeLifetime = 24 * time.Hour
	// serverLifetime of the hub's certificate; it is made anew at every start and
	// at half of it.
	serverLifetime = 24 * time.Hour
)

// Authority signs with one root. It is safe for concurrent use and never changes.
type Authority struct {
	trustDomain string
	key         crypto.Signer
	root        *x509.Certificate
	bundle      []*x509.Certificate // every root that is trusted, root among them
}

// NewRoot makes a root certificate and its key, both in PEM.
func NewRoot(now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "Dynamic Config Fleet hub CA"},
		NotBefore:    now.Add(-backdate), NotAfter: now.Add(rootLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// New reads a root and its key from PEM. The bundle holds further roots to trust and
// may be empty.
func New(trustDomain string, certPEM, keyPEM, bundlePEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, errors.New("the root certificate and its key do not fit together or are no PEM")
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("the root certificate is no certificate authority's")
	}
	a := &Authority{trustDomain: trustDomain, key: signer, root: pair.Leaf, bundle: []*x509.Certificate{pair.Leaf}}
	for rest := bundlePEM; len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA {
			return nil, errors.New("the bundle holds something that is no certificate authority's certificate")
		}
		if !cert.Equal(pair.Leaf) {
			a.bundle = append(a.bundle, cert)
		}
	}
	return a, nil
}

// Roots are what a client certificate must chain to.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, cert := range a.bundle {
		pool.AddCert(cert)
	}
	return pool
}

// BundleDER is every root that a spoke should accept of a hub.
func (a *Authority) BundleDER() [][]byte {
	ders := make([][]byte, 0, len(a.bundle))
	for _, cert := range a.bundle {
		ders = append(ders, cert.Raw)
	}
	return ders
}

// bundlePEM is BundleDER in PEM.
func (a *Authority) bundlePEM() []byte {
	var out []byte
	for _, der := range a.BundleDER() {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// TrustDomain is the domain of the identities that the authority signs.
func (a *Authority) TrustDomain() string { return a.trustDomain }

// SignSpoke certifies a cluster's key for a lifetime from now. The certificate's
// only name is the cluster's URI.
func (a *Authority) SignSpoke(public crypto.PublicKey, cluster string, now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	return a.sign(public, &x509.Certificate{
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		URIs:        []*url.URL{identity.SpokeURI(a.trustDomain, cluster)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// SignServer makes a key and a server certificate for the hub under the given DNS
// names and IP addresses.
func (a *Authority) SignServer(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		NotBefore: now.Add(-backdate), NotAfter: now.Add(serverLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	cert, err := a.sign(key.Public(), template)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw, a.root.Raw}, PrivateKey: key, Leaf: cert}, nil
}

func (a *Authority) sign(public crypto.PublicKey, template *x509.Certificate) (*x509.Certificate, error) {
	template.SerialNumber = serial()
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// serial is 127 random bits: positive, and within the 20 octets of RFC 5280, 4.1.2.2.
func serial() *big.Int {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails: it ends the program instead (crypto/rand)
	raw[0] &= 0x7f
	return new(big.Int).SetBytes(raw)
}
