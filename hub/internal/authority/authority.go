package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// Source says which authority counts at this moment: an Authority is its own, a Live
// that of the Secret it follows.
type Source interface {
	Current() *Authority
}

// Authority signs with one root. It is safe for concurrent use and never changes.
type Authority struct {
	trustDomain string
	signing     pair
	chain       []*x509.Certificate // what the hub shows behind its own certificate
	bundle      []*x509.Certificate // what spokes should accept
	clients     *x509.CertPool      // what signs the certificates of spokes
}

var _ Source = (*Authority)(nil)

// NewRoot makes a root certificate and its key, both in PEM.
func NewRoot(now time.Time) (certPEM, keyPEM []byte, err error) {
	root, err := newRoot(now)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(root.key)
	return encodeCertificates(root.cert), keyPEM, err
}

// newRoot makes a root. Its name is its own, so that nobody looks for the issuer of
// one root's certificate in another. Its path has no length: each rotation adds a
// link to the chain that leads back to it, and only who holds the key can add one.
func newRoot(now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	number := serial()
	template := &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{CommonName: fmt.Sprintf("Dynamic Config Fleet hub CA %08x", number.Bytes()[:4])},
		NotBefore:    now.Add(-backdate), NotAfter: now.Add(rootLifetime),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, err := certify(template, template, key.Public(), key)
	return pair{cert: cert, key: key}, err
}

// New reads a root and its key from PEM. The bundle holds further roots to trust and
// may be empty.
func New(trustDomain string, certPEM, keyPEM, bundlePEM []byte) (*Authority, error) {
	m, err := parse(map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM, bundleKey: bundlePEM})
	if err != nil {
		return nil, err
	}
	return m.authority(trustDomain, false), nil
}

// Current is the authority itself.
func (a *Authority) Current() *Authority { return a }

// Roots are what a client certificate must chain to. The pool is not to be changed.
func (a *Authority) Roots() *x509.CertPool { return a.clients }

// BundleDER is every root that a spoke should accept of a hub.
func (a *Authority) BundleDER() [][]byte {
	ders := make([][]byte, 0, len(a.bundle))
	for _, cert := range a.bundle {
		ders = append(ders, cert.Raw)
	}
	return ders
}

// TrustDomain is the domain of the identities that the authority signs.
func (a *Authority) TrustDomain() string { return a.trustDomain }

// NotAfter is when the root that signs ends.
func (a *Authority) NotAfter() time.Time { return a.signing.cert.NotAfter }

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
	shown := [][]byte{cert.Raw}
	for _, link := range a.chain {
		shown = append(shown, link.Raw)
	}
	return &tls.Certificate{Certificate: shown, PrivateKey: key, Leaf: cert}, nil
}

// sign certifies a key no longer than the root itself holds.
func (a *Authority) sign(public crypto.PublicKey, template *x509.Certificate) (*x509.Certificate, error) {
	template.SerialNumber = serial()
	template.BasicConstraintsValid = true
	template.NotAfter = earlier(template.NotAfter, a.signing.cert.NotAfter)
	return certify(template, a.signing.cert, public, a.signing.key)
}

func certify(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// serial is 127 random bits: positive, and within the 20 octets of RFC 5280, 4.1.2.2.
// The highest of them is set, so that it always has 16 octets.
func serial() *big.Int {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails: it ends the program instead (crypto/rand)
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
