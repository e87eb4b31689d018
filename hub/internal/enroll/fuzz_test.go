package enroll_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// FuzzEnroll asks a hub that knows the keys of cluster prod, and a join token of
// cluster new. Whatever comes, it signs for what the two good requests hold alone,
// and no answer holds a token.
func FuzzEnroll(f *testing.F) {
	issuer, thief, key := spoketest.IssuerOf(f, fixedKey(f, 1)), spoketest.IssuerOf(f, fixedKey(f, 2)), fixedKey(f, 3)
	const joinToken = "dcj_0123456789abcdefghijklmnopqrstuvwxyz"
	hash := identity.HashJoinToken(joinToken)
	ca, scheme := spoketest.Authority(f), testenv.Scheme()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	claimsOf := func(cluster string) jwt.Claims {
		claims := spoketest.Claims(audience(f, cluster, key))
		claims.IssuedAt, claims.NotBefore, claims.Expiry = jwt.NewNumericDate(now), jwt.NewNumericDate(now), jwt.NewNumericDate(now.Add(10*time.Minute))
		return claims
	}
	prod := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true, Keys: issuer.Keys(f)}}
	fresh := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: v1alpha1.SpokeClusterSpec{
		Accepted: true, JoinToken: &v1alpha1.JoinToken{SHA256: hash, ExpiresAt: metav1.NewTime(now.Add(time.Hour))},
	}}

	request := csr(f, key, &x509.CertificateRequest{})
	token, joined := issuer.Token(f, claimsOf("prod")), issuer.Token(f, claimsOf("new"))
	jwks := []byte(issuer.Keys(f).JWKS)
	header := func(name jose.HeaderKey, value any) func(*jose.SigningKey, *jose.SignerOptions) {
		return func(_ *jose.SigningKey, o *jose.SignerOptions) { o.WithHeader(name, value) }
	}
	claims := claimsOf("prod")
	two := claims
	two.Audience = append(two.Audience, "x")
	f.Add("prod", request, "", token, []byte(nil))
	f.Add("new", request, joinToken, joined, jwks)
	f.Add("prod", request[:40], "", token, []byte(nil))
	f.Add("prod", append(request, 0), "", token, []byte(nil))
	f.Add("prod", csr(f, spoketest.Key(f), &x509.CertificateRequest{}), "", token, []byte(nil))
	f.Add("prod", []byte("-----BEGIN CERTIFICATE REQUEST-----"), "", token, []byte(nil))
	f.Add("pro", request, "", token, []byte(nil))
	f.Add("Prod", request, "", token, []byte(nil))
	f.Add("new", request, "", joined, []byte(nil))
	f.Add("new", request, joinToken, thief.Token(f, claimsOf("new")), jwks)
	f.Add("new", request, joinToken, joined, []byte(thief.Keys(f).JWKS))
	f.Add("new", request, joinToken, joined, []byte(`{"keys":[{"kty":"oct","k":"AAAA","kid":"`+issuer.KeyID+`"}]}`))
	f.Add("prod", request, joinToken, token, jwks)
	f.Add("prod", request, "", issuer.Token(f, two), []byte(nil))
	f.Add("prod", request, "", issuer.Token(f, map[string]any{"iss": strings.Repeat("a", 10_000), "exp": 1e300}), []byte(nil))
	f.Add("prod", request, "", issuer.Token(f, map[string]any{"aud": []any{1, nil}}), []byte(nil))
	f.Add("prod", request, "", thief.Token(f, claims, header("kid", issuer.KeyID)), []byte(nil))
	f.Add("prod", request, "", thief.Token(f, claims, header("jku", "https://attacker.example")), []byte(nil))
	f.Add("prod", request, "", thief.Token(f, claims, func(_ *jose.SigningKey, o *jose.SignerOptions) { o.EmbedJWK = true }), []byte(nil))
	f.Add("prod", request, "", issuer.Token(f, claims, func(k *jose.SigningKey, _ *jose.SignerOptions) {
		k.Algorithm, k.Key = jose.HS256, []byte(issuer.Keys(f).JWKS)
	}), []byte(nil))
	f.Add("prod", request, "", "eyJhbGciOiJub25lIn0."+strings.Split(token, ".")[1]+".", []byte(nil))

	f.Fuzz(func(t *testing.T, name string, csr []byte, join, serviceAccountToken string, keys []byte) {
		// Each with a registry that no other has written to, and limits of its own.
		known := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.SpokeCluster{}).
			WithObjects(prod.DeepCopy(), fresh.DeepCopy()).Build()
		clock := func() time.Time { return now }
		service := enroll.New(enroll.Config{
			Signer: ca, TrustDomain: spoketest.TrustDomain, Lifetime: lifetime, Now: clock,
			Registry: &registry.Registry{Reader: known, Status: known.Status(), Now: clock},
		})
		req := &fleetv1.EnrollRequest{Cluster: name, CsrDer: csr, Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: serviceAccountToken}}
		if join != "" {
			req.Evidence = &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{
				Token: join, ServiceAccountToken: serviceAccountToken,
				Keys: &fleetv1.ClusterKeys{Issuer: spoketest.ClusterIssuer, Jwks: keys},
			}}
		}
		resp, err := service.Enroll(t.Context(), req)
		byKeys := name == "prod" && join == "" && signed(serviceAccountToken) == signed(token)
		byJoin := name == "new" && join == joinToken && signed(serviceAccountToken) == signed(joined)
		if err != nil {
			whole := serviceAccountToken == token || (serviceAccountToken == joined && bytes.Equal(keys, jwks))
			if (byKeys || byJoin) && whole && bytes.Equal(csr, request) {
				t.Errorf("a good request is refused: %v", err)
			}
			if got := spoketest.VerdictOf(err); got.Reason == "" {
				t.Errorf("an error without a reason: %v", err)
			}
			for _, secret := range []string{join, serviceAccountToken} {
				if len(secret) > 20 && strings.Contains(err.Error(), secret) {
					t.Error("the error holds a token")
				}
			}
			return
		}
		if !byKeys && !byJoin {
			t.Fatalf("it signed for %q with evidence that nobody gave", name)
		}
		leaf, err := x509.ParseCertificate(resp.GetChainDer()[0])
		if err != nil || !key.PublicKey.Equal(leaf.PublicKey) {
			t.Errorf("it signed another key than the token's: %v", err)
		}
	})
}

// fixedKey is a key that is the same in every process that fuzzes.
func fixedKey(f *testing.F, n byte) *ecdsa.PrivateKey {
	f.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{n}, 32))
	if err != nil {
		f.Fatal(err)
	}
	return key
}

// signed is the part of a token that its signature is about.
func signed(token string) string { return token[:max(0, strings.LastIndex(token, "."))] }
