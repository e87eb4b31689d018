package testenv

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateLife is longer than any test and shorter than anything worth
// stealing.
const certificateLife = 24 * time.Hour

// Authority is a certificate authority of its own.
type Authority struct {
	// PEM is its certificate.
	PEM []byte

	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority makes an authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := template("dynamic-config-testenv")
	cert.IsCA, cert.BasicConstraintsValid, cert.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Authority{PEM: encode("CERTIFICATE", der), cert: cert, key: key}, nil
}

// Server issues the certificate of a server on loopback, and its key, both in PEM.
func (a *Authority) Server(name string) (certPEM, keyPEM []byte, err error) {
	cert := template(name)
	cert.IPAddresses = []net.IP{net.ParseIP(loopback)}
	cert.DNSNames = []string{"localhost"}
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return a.issue(cert)
}

// Client issues the certificate of a client, and its key, both in PEM.
func (a *Authority) Client(name string, organizations ...string) (certPEM, keyPEM []byte, err error) {
	cert := template(name)
	cert.Subject.Organization = organizations
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(cert)
}

// issue signs a certificate for a new key.
func (a *Authority) issue(cert *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign %s: %w", cert.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER), nil
}

// template is a certificate of this name before it is signed.
func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:      pkix.Name{CommonName: name},
		SerialNumber: big.NewInt(now.UnixNano()),
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// encode wraps bytes into one PEM block.
func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
