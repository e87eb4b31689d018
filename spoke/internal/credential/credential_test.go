package credential

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// issue makes a certificate of an hour for a key, signed by itself.
func issue(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(1_000_000, 0), NotAfter: time.Unix(1_003_600, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func newCredential(t *testing.T) *Credential {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der := issue(t, key)
	c, err := New(key, [][]byte{der}, [][]byte{der})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRequest_NamesNobodyAndProvesTheKey(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := Request(key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil || request.CheckSignature() != nil {
		t.Fatalf("want a request signed by its key, got %v", err)
	}
	if request.Subject.String() != "" || len(request.URIs)+len(request.DNSNames) != 0 {
		t.Errorf("want no name, got %v", request.Subject)
	}
}

func TestNew_RefusesACertificateForAnotherKey(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(key, [][]byte{issue(t, other)}, nil); err == nil {
		t.Error("want an error")
	}
	if _, err := New(key, nil, nil); err == nil {
		t.Error("want an error for an empty chain")
	}
}

func TestCredential_Times(t *testing.T) {
	c := newCredential(t)
	if got := c.RenewAt(); !got.Equal(time.Unix(1_001_800, 0)) {
		t.Errorf("want half of the life, got %s", got)
	}
	for at, want := range map[int64]bool{999_999: false, 1_000_000: true, 1_003_599: true, 1_003_600: false} {
		if got := c.ValidAt(time.Unix(at, 0)); got != want {
			t.Errorf("at %d: want valid=%v, got %v", at, want, got)
		}
	}
}

func TestEncode_ReadsBack(t *testing.T) {
	c := newCredential(t)
	data, err := encode(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !back.key.Equal(c.key) || !back.SameBundle(c.TrustBundle) || !cmp.Equal(back.TLS().Certificate, c.TLS().Certificate) {
		t.Error("want the same credential")
	}
}

func TestDecode_NeverQuotesTheKey(t *testing.T) {
	data, err := encode(newCredential(t))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "c2VjcmV0LWtleS1ieXRlcw=="
	data[keyField] = []byte("-----BEGIN EC PRIVATE KEY-----\n" + secret + "\n-----END EC PRIVATE KEY-----\n")
	_, err = decode(data)
	if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "secret-key") {
		t.Errorf("got %v", err)
	}
	data[keyField] = []byte("no PEM")
	if _, err := decode(data); err == nil {
		t.Error("want an error")
	}
	if errors.Is(err, ErrMalformed) {
		t.Error("decode says what, Load says that it is malformed")
	}
}
