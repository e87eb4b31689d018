package spoketest

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// ClusterIssuer is the issuer of every Issuer: as with real clusters, only their keys
// tell them apart.
const ClusterIssuer = "https://kubernetes.default.svc.cluster.local"

// AgentSubject is what a token of an agent's ServiceAccount is about, where the
// SpokeCluster states none.
const AgentSubject = "system:serviceaccount:" + v1alpha1.DefaultSpokeNamespace + ":" + v1alpha1.DefaultSpokeServiceAccount

// Issuer signs ServiceAccount tokens as an API server does.
type Issuer struct {
	Key *ecdsa.PrivateKey
	// KeyID is made of the key, as kube-apiserver does.
	KeyID string
}

// NewIssuer makes an issuer with a key of its own.
func NewIssuer(tb testing.TB) *Issuer {
	tb.Helper()
	return IssuerOf(tb, Key(tb))
}

// IssuerOf is the issuer of a key.
func IssuerOf(tb testing.TB, key *ecdsa.PrivateKey) *Issuer {
	tb.Helper()
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(spki)
	return &Issuer{Key: key, KeyID: base64.RawURLEncoding.EncodeToString(sum[:])}
}

// Keys are what a SpokeCluster pins of the issuer, and of others that publish with it.
func (i *Issuer) Keys(tb testing.TB, others ...*Issuer) *v1alpha1.ClusterKeys {
	tb.Helper()
	var set jose.JSONWebKeySet
	for _, issuer := range append([]*Issuer{i}, others...) {
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key: issuer.Key.Public(), KeyID: issuer.KeyID, Algorithm: string(jose.ES256), Use: "sig",
		})
	}
	text, err := json.Marshal(set)
	if err != nil {
		tb.Fatal(err)
	}
	return &v1alpha1.ClusterKeys{Issuer: ClusterIssuer, JWKS: string(text)}
}

// Claims are those of a good token for an audience, issued now for ten minutes.
func Claims(audience string) jwt.Claims {
	now := time.Now()
	return jwt.Claims{
		Issuer: ClusterIssuer, Subject: AgentSubject, Audience: jwt.Audience{audience},
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(10 * time.Minute)),
	}
}

// Token signs claims. edit may change what the signer is given: its algorithm, key
// and header.
func (i *Issuer) Token(tb testing.TB, claims any, edit ...func(*jose.SigningKey, *jose.SignerOptions)) string {
	tb.Helper()
	key := jose.SigningKey{Algorithm: jose.ES256, Key: i.Key}
	options := (&jose.SignerOptions{}).WithHeader("kid", i.KeyID)
	for _, f := range edit {
		f(&key, options)
	}
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return token
}
