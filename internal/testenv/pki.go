package testenv

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"os"
	"path/filepath"
)

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
	ca, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	serverCert, serverKey, err := ca.Server("kube-apiserver")
	if err != nil {
		return nil, err
	}
	// The API server lets this group do anything.
	adminCert, adminKey, err := ca.Client("admin", "system:masters")
	if err != nil {
		return nil, err
	}

	p := &pki{caPEM: ca.PEM, adminCertPEM: adminCert, adminKeyPEM: adminKey}
	// RSA, as almost every real cluster signs its tokens.
	tokenKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	tokenPub, err := x509.MarshalPKIXPublicKey(tokenKey.Public())
	if err != nil {
		return nil, err
	}
	for _, file := range []pkiFile{
		{&p.caFile, "ca.crt", p.caPEM},
		{&p.certFile, "apiserver.crt", serverCert},
		{&p.keyFile, "apiserver.key", serverKey},
		{&p.tokenKeyFile, "sa.key", encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(tokenKey))},
		{&p.tokenPubFile, "sa.pub", encode("PUBLIC KEY", tokenPub)},
	} {
		if err := file.write(dir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// pkiFile is a file of a pki, and where its path goes.
type pkiFile struct {
	path *string
	name string
	text []byte
}

func (f *pkiFile) write(dir string) error {
	*f.path = filepath.Join(dir, f.name)
	return os.WriteFile(*f.path, f.text, 0o600)
}
