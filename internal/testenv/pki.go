package testenv

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is longer than any test and shorter than anything worth
// stealing.
const certificateLife = 24 * time.Hour

// pki is what a control plane proves itself and its administrator with.
type pki struct {
	caPEM                      []byte
	adminCertPEM, adminKeyPEM  []byte
	caFile, certFile, keyFile  string
	tokenKeyFile, tokenPubFile string
}

// newPKI makes a CA, the API server's certificate, the administrator's, and a
// key that signs ServiceAccount tokens. All are of this control plane alone.
func newPKI(dir string) (*pki, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := template("dynamic-config-testenv")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}

	server := template("kube-apiserver")
	server.IPAddresses = []net.IP{net.ParseIP(loopback)}
	server.DNSNames = []string{"localhost"}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serverCert, serverKey, err := issue(server, ca, caKey)
	if err != nil {
		return nil, err
	}
	admin := template("admin")
	// The API server lets this group do anything.
	admin.Subject.Organization = []string{"system:masters"}
	admin.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	adminCert, adminKey, err := issue(admin, ca, caKey)
	if err != nil {
		return nil, err
	}

	p := &pki{caPEM: encode("CERTIFICATE", caDER), adminCertPEM: adminCert, adminKeyPEM: adminKey}
	// RSA, as almost every real cluster signs its tokens.
	tokenKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	tokenPub, err := x509.MarshalPKIXPublicKey(tokenKey.Public())
	if err != nil {
		return nil, err
	}
	for _, file := range []struct {
		path *string
		name string
		text []byte
	}{
		{&p.caFile, "ca.crt", p.caPEM},
		{&p.certFile, "apiserver.crt", serverCert},
		{&p.keyFile, "apiserver.key", serverKey},
		{&p.tokenKeyFile, "sa.key", encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(tokenKey))},
		{&p.tokenPubFile, "sa.pub", encode("PUBLIC KEY", tokenPub)},
	} {
		*file.path = filepath.Join(dir, file.name)
		if err := os.WriteFile(*file.path, file.text, 0o600); err != nil {
			return nil, err
		}
	}
	return p, nil
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

// issue signs a certificate for a new key and returns both in PEM.
func issue(cert, ca *x509.Certificate, caKey crypto.Signer) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign %s: %w", cert.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER), nil
}

// encode wraps bytes into one PEM block.
func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
