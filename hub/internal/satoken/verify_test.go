package satoken_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"dynamic-config.rs/fleet/hub/internal/satoken"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
)

const audience = "dynamic-config:fleet.example:prod:abc"

func keysOf(t *testing.T, issuer *spoketest.Issuer, others ...*spoketest.Issuer) satoken.Keys {
	t.Helper()
	pinned := issuer.Keys(t, others...)
	keys, err := satoken.ParseKeys(pinned.Issuer, []byte(pinned.JWKS))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// with is a good token's claims, changed.
func with(change func(*jwt.Claims)) jwt.Claims {
	claims := spoketest.Claims(audience)
	change(&claims)
	return claims
}

// header sets a field of the token's header.
func header(name jose.HeaderKey, value any) func(*jose.SigningKey, *jose.SignerOptions) {
	return func(_ *jose.SigningKey, o *jose.SignerOptions) { o.WithHeader(name, value) }
}

// handmade is a token with any header and signature.
func handmade(t *testing.T, header map[string]any, claims any, signature []byte) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(header) + "." + part(claims) + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestVerify(t *testing.T) {
	pinned, second, other := spoketest.NewIssuer(t), spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	good := pinned.Token(t, spoketest.Claims(audience))
	now := time.Now()
	at := func(d time.Duration) *jwt.NumericDate { return jwt.NewNumericDate(now.Add(d)) }
	for name, tc := range map[string]struct {
		token string
		want  error
	}{
		"a token of a pinned key":                  {good, nil},
		"a token of the second pinned key":         {second.Token(t, spoketest.Claims(audience)), nil},
		"one that ended within the leeway":         {pinned.Token(t, with(func(c *jwt.Claims) { c.Expiry = at(-50 * time.Second) })), nil},
		"one that begins within the leeway":        {pinned.Token(t, with(func(c *jwt.Claims) { c.NotBefore, c.IssuedAt = at(50*time.Second), at(50*time.Second) })), nil},
		"one that lasts an hour":                   {pinned.Token(t, with(func(c *jwt.Claims) { c.Expiry = at(time.Hour) })), nil},
		"one that is over":                         {pinned.Token(t, with(func(c *jwt.Claims) { c.Expiry = at(-2 * time.Minute) })), satoken.ErrTime},
		"one that has not begun":                   {pinned.Token(t, with(func(c *jwt.Claims) { c.NotBefore = at(2 * time.Minute) })), satoken.ErrTime},
		"one that was issued in the future":        {pinned.Token(t, with(func(c *jwt.Claims) { c.IssuedAt = at(2 * time.Minute) })), satoken.ErrTime},
		"one that lasts for a day":                 {pinned.Token(t, with(func(c *jwt.Claims) { c.Expiry = at(24 * time.Hour) })), satoken.ErrTime},
		"one without an end":                       {pinned.Token(t, with(func(c *jwt.Claims) { c.Expiry = nil })), satoken.ErrClaims},
		"one that does not say when it was issued": {pinned.Token(t, with(func(c *jwt.Claims) { c.IssuedAt = nil })), satoken.ErrClaims},
		"another issuer's by its claim":            {pinned.Token(t, with(func(c *jwt.Claims) { c.Issuer = "https://other.example" })), satoken.ErrClaims},
		"another ServiceAccount's":                 {pinned.Token(t, with(func(c *jwt.Claims) { c.Subject += "-2" })), satoken.ErrSubject},
		"nobody's":                                 {pinned.Token(t, with(func(c *jwt.Claims) { c.Subject = "" })), satoken.ErrSubject},
		"another audience":                         {pinned.Token(t, with(func(c *jwt.Claims) { c.Audience[0] += "d" })), satoken.ErrAudience},
		"a prefix of the audience":                 {pinned.Token(t, with(func(c *jwt.Claims) { c.Audience[0] = audience[:len(audience)-1] })), satoken.ErrAudience},
		"two audiences":                            {pinned.Token(t, with(func(c *jwt.Claims) { c.Audience = append(c.Audience, "https://kubernetes.default.svc") })), satoken.ErrAudience},
		"the same audience twice":                  {pinned.Token(t, with(func(c *jwt.Claims) { c.Audience = append(c.Audience, audience) })), satoken.ErrAudience},
		"no audience":                              {pinned.Token(t, with(func(c *jwt.Claims) { c.Audience = nil })), satoken.ErrAudience},
		"another cluster's of the same issuer":     {other.Token(t, spoketest.Claims(audience)), satoken.ErrKey},
		"another key under a pinned ID":            {other.Token(t, spoketest.Claims(audience), header("kid", pinned.KeyID)), satoken.ErrSignature},
		"a pinned key under another pinned ID":     {pinned.Token(t, spoketest.Claims(audience), header("kid", second.KeyID)), satoken.ErrSignature},
		"no key ID":                                {pinned.Token(t, spoketest.Claims(audience), header("kid", "")), satoken.ErrKey},
		"a key that the token brings with it":      {other.Token(t, spoketest.Claims(audience), header("kid", pinned.KeyID), embed), satoken.ErrSignature},
		"a key at an address of the token's":       {other.Token(t, spoketest.Claims(audience), header("jku", "https://attacker.example/jwks")), satoken.ErrKey},
		"a certificate at an address of it":        {other.Token(t, spoketest.Claims(audience), header("x5u", "https://attacker.example/x5u")), satoken.ErrKey},
		"the public key as a shared secret":        {sharedSecret(t, pinned), satoken.ErrMalformed},
		"no algorithm":                             {handmade(t, map[string]any{"alg": "none", "kid": pinned.KeyID}, spoketest.Claims(audience), nil), satoken.ErrMalformed},
		"no algorithm in capitals":                 {handmade(t, map[string]any{"alg": "NONE", "kid": pinned.KeyID}, spoketest.Claims(audience), nil), satoken.ErrMalformed},
		"RS256 by its word for an ECDSA key":       {handmade(t, map[string]any{"alg": "RS256", "kid": pinned.KeyID}, spoketest.Claims(audience), make([]byte, 256)), satoken.ErrKey},
		"a header that must be understood":         {handmade(t, map[string]any{"alg": "ES256", "kid": pinned.KeyID, "crit": []string{"x"}, "x": 1}, spoketest.Claims(audience), make([]byte, 64)), satoken.ErrMalformed},
		"no signature":                             {good[:strings.LastIndex(good, ".")+1], satoken.ErrSignature},
		"claims that were changed":                 {tampered(t, good), satoken.ErrSignature},
		"claims that are no claims":                {pinned.Token(t, map[string]any{"iss": 1}), satoken.ErrMalformed},
		"an audience that is no text":              {pinned.Token(t, map[string]any{"iss": spoketest.ClusterIssuer, "aud": []any{1, audience}}), satoken.ErrMalformed},
		"an end beyond all numbers":                {pinned.Token(t, map[string]any{"iss": spoketest.ClusterIssuer, "iat": 1, "exp": 1e300, "sub": spoketest.AgentSubject, "aud": audience}), satoken.ErrTime},
		"a token of huge claims":                   {pinned.Token(t, map[string]any{"iss": strings.Repeat("a", 20_000)}), satoken.ErrMalformed},
		"nothing":                                  {"", satoken.ErrMalformed},
		"a text":                                   {"a.b.c", satoken.ErrMalformed},
		"a token in JSON form":                     {`{"payload":"e30","protected":"eyJhbGciOiJFUzI1NiJ9","signature":""}`, satoken.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			err := keysOf(t, pinned, second).Verify(tc.token, satoken.Expected{Subject: spoketest.AgentSubject, Audience: audience, Now: now})
			if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// embed puts the signer's own public key into the header.
func embed(_ *jose.SigningKey, o *jose.SignerOptions) { o.EmbedJWK = true }

// sharedSecret is signed with HS256, the text of the public key being the secret: a
// verifier that goes by the token's word takes it.
func sharedSecret(t *testing.T, i *spoketest.Issuer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(i.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return i.Token(t, spoketest.Claims(audience), func(k *jose.SigningKey, _ *jose.SignerOptions) {
		k.Algorithm, k.Key = jose.HS256, secret
	})
}

// tampered is a token whose subject was changed after it was signed.
func tampered(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), "prod", "dev1", 1)))
	return strings.Join(parts, ".")
}

// Almost every real cluster signs with RSA.
func TestVerify_RSA(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	issuer := spoketest.NewIssuer(t)
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: issuer.KeyID, Algorithm: "RS256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := satoken.ParseKeys(spoketest.ClusterIssuer, text)
	if err != nil {
		t.Fatal(err)
	}
	want := satoken.Expected{Subject: spoketest.AgentSubject, Audience: audience, Now: time.Now()}
	for algorithm, refusal := range map[jose.SignatureAlgorithm]error{
		jose.RS256: nil, jose.RS512: satoken.ErrMalformed, jose.PS256: satoken.ErrMalformed,
	} {
		token := issuer.Token(t, spoketest.Claims(audience), func(k *jose.SigningKey, _ *jose.SignerOptions) { k.Algorithm, k.Key = algorithm, key })
		if err := keys.Verify(token, want); !errors.Is(err, refusal) || (err == nil) != (refusal == nil) {
			t.Errorf("%s: got %v, want %v", algorithm, err, refusal)
		}
	}
}
