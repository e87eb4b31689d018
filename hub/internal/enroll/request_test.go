package enroll_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"net/url"
	"slices"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
)

func TestEnroll_IgnoresTheNamesInTheRequest(t *testing.T) {
	s, issuer, key := newSite(t), spoketest.NewIssuer(t), spoketest.Key(t)
	name := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: issuer.Keys(t)})
	req := asking(t, name, key, issuer.Token(t, spoketest.Claims(audience(t, name, key))))
	req.CsrDer = csr(t, key, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		DNSNames: []string{"hub.example"}, EmailAddresses: []string{"a@b.example"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 7)},
		URIs: []*url.URL{identity.SpokeURI(spoketest.TrustDomain, "other")},
	})
	resp, err := s.enroll(t, req)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(resp.GetChainDer()[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := identity.ClusterOf(leaf, spoketest.TrustDomain); err != nil || got != name {
		t.Errorf("it names %q, %v", got, err)
	}
	if got := leaf.Subject.String(); got != "" {
		t.Errorf("its subject is %q", got)
	}
}

func TestEnroll_Keys(t *testing.T) {
	s := newSite(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey := func(bits int) *rsa.PrivateKey {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key := spoketest.Key(t)
	good := csr(t, key, &x509.CertificateRequest{})
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	issuer := spoketest.NewIssuer(t)
	for title, tc := range map[string]struct {
		csr  []byte
		key  crypto.Signer
		want spoketest.Verdict
	}{
		"an ECDSA key is signed":             {nil, key, spoketest.Verdict{}},
		"an Ed25519 key is signed":           {nil, ed, spoketest.Verdict{}},
		"an RSA key of 3072 bits is signed":  {nil, rsaKey(3072), spoketest.Verdict{}},
		"an RSA key of 2048 bits is refused": {nil, rsaKey(2048), requestInvalid},
		"an empty request is refused":        {[]byte{}, key, requestInvalid},
		"text is refused":                    {[]byte("-----BEGIN CERTIFICATE REQUEST-----"), key, requestInvalid},
		"a request with more behind it":      {append(slices.Clone(good), 0), key, requestInvalid},
		"a request somebody else signed":     {forged, key, requestInvalid},
		"a key as large as the request may be, which would cost minutes to check": {hugeRSA(t), key, requestInvalid},
	} {
		t.Run(title, func(t *testing.T) {
			name := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: issuer.Keys(t)})
			req := asking(t, name, tc.key, issuer.Token(t, spoketest.Claims(audience(t, name, tc.key))))
			if tc.csr != nil {
				req.CsrDer = tc.csr
			}
			_, err := s.enroll(t, req)
			if got := spoketest.VerdictOf(err); got != tc.want {
				t.Errorf("verdict %+v, want %+v (%v)", got, tc.want, err)
			}
		})
	}
}

// hugeRSA is a request for an RSA key of four million bits with a signature of that
// size.
func hugeRSA(t *testing.T) []byte {
	t.Helper()
	const size = 500_000
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = 0xff
	}
	public, err := asn1.Marshal(struct {
		N *big.Int
		E int
	}{new(big.Int).SetBytes(raw), 65537})
	if err != nil {
		t.Fatal(err)
	}
	encryption := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}
	signature := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue}
	type publicKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	type info struct {
		Version    int
		Subject    asn1.RawValue
		Key        publicKey
		Attributes asn1.RawValue
	}
	raw[0] = 0x7f
	der, err := asn1.Marshal(struct {
		Info      info
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		info{
			Subject: asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true}, Key: publicKey{encryption, asn1.BitString{Bytes: public, BitLength: 8 * len(public)}},
			Attributes: asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true},
		},
		signature,
		asn1.BitString{Bytes: raw, BitLength: 8 * len(raw)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseCertificateRequest(der); err != nil {
		t.Fatalf("it does not get as far as its signature: %v", err)
	}
	return der
}
