package authority

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the CA Secret, beside tls.crt and tls.key of what signs.
const (
	bundleKey   = "ca.crt"   // every root to trust
	nextCertKey = "next.crt" // the root that will sign next
	nextKeyKey  = "next.key"
)

// pair is a certificate authority's certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// material is what the CA Secret holds.
type material struct {
	signing pair
	// links lead from signing to older roots, or to the root above it: what follows
	// it in tls.crt.
	links   []*x509.Certificate
	next    *pair // the coming root; nil when none is
	trusted []*x509.Certificate
}

func parse(data map[string][]byte) (*material, error) {
	m := &material{}
	var err error
	if m.signing, m.links, err = parsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err != nil {
		return nil, err
	}
	if m.trusted, err = parseAuthorities(data[bundleKey]); err != nil {
		return nil, err
	}
	if len(data[nextCertKey]) > 0 {
		next, _, err := parsePair(data[nextCertKey], data[nextKeyKey])
		if err != nil {
			return nil, fmt.Errorf("the coming root: %w", err)
		}
		m.next = &next
	}
	return m, nil
}

// parsePair never passes an error on: it may quote what it could not read.
func parsePair(certPEM, keyPEM []byte) (pair, []*x509.Certificate, error) {
	read, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return pair{}, nil, errors.New("the root certificate and its key do not fit together or are no PEM")
	}
	signer, ok := read.PrivateKey.(crypto.Signer)
	if !ok || read.Leaf == nil || !maySign(read.Leaf) {
		return pair{}, nil, errors.New("the root certificate is no certificate authority's")
	}
	var links []*x509.Certificate
	for _, der := range read.Certificate[1:] {
		link, err := x509.ParseCertificate(der)
		if err != nil || !maySign(link) {
			return pair{}, nil, errors.New("what follows the root certificate is no certificate authority's certificate")
		}
		links = append(links, link)
	}
	return pair{cert: read.Leaf, key: signer}, links, nil
}

func parseAuthorities(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for len(text) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !maySign(cert) {
			return nil, errors.New("the bundle holds something that is no certificate authority's certificate")
		}
		all = append(all, cert)
	}
	return all, nil
}

// maySign says whether a certificate is a certificate authority's.
func maySign(cert *x509.Certificate) bool {
	return cert.IsCA && (cert.KeyUsage == 0 || cert.KeyUsage&x509.KeyUsageCertSign != 0)
}

// bundle is every root to trust, each once: what signs, what will, and the others.
func (m *material) bundle() []*x509.Certificate {
	all := []*x509.Certificate{m.signing.cert}
	if m.next != nil {
		all = append(all, m.next.cert)
	}
	for _, cert := range m.trusted {
		if !slices.ContainsFunc(all, cert.Equal) {
			all = append(all, cert)
		}
	}
	return all
}

// authority is what the material says. Of an external authority only what signs here
// counts as a signer of spokes: the root above it may sign for anybody.
func (m *material) authority(trustDomain string, external bool) *Authority {
	a := &Authority{
		trustDomain: trustDomain, signing: m.signing, bundle: m.bundle(),
		chain:   append([]*x509.Certificate{m.signing.cert}, m.links...),
		clients: x509.NewCertPool(),
	}
	signers := a.bundle
	if external {
		signers = []*x509.Certificate{m.signing.cert}
	}
	for _, cert := range signers {
		a.clients.AddCert(cert)
	}
	return a
}

// writeTo puts the material into a Secret's data; keys that are not its own stay.
func (m *material) writeTo(data map[string][]byte) error {
	key, err := encodeKey(m.signing.key)
	if err != nil {
		return err
	}
	data[corev1.TLSCertKey] = encodeCertificates(append([]*x509.Certificate{m.signing.cert}, m.links...)...)
	data[corev1.TLSPrivateKeyKey] = key
	data[bundleKey] = encodeCertificates(m.bundle()...)
	delete(data, nextCertKey)
	delete(data, nextKeyKey)
	if m.next == nil {
		return nil
	}
	if key, err = encodeKey(m.next.key); err != nil {
		return err
	}
	data[nextCertKey], data[nextKeyKey] = encodeCertificates(m.next.cert), key
	return nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func encodeCertificates(all ...*x509.Certificate) []byte {
	var out []byte
	for _, cert := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return out
}
