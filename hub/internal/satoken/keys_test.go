package satoken_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"dynamic-config.rs/fleet/hub/internal/satoken"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
)

// set is a JSON Web Key Set of any keys, as an enemy might publish.
func set(t *testing.T, keys ...jose.JSONWebKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestParseKeys(t *testing.T) {
	key := spoketest.Key(t)
	ec := func(id string) jose.JSONWebKey { return jose.JSONWebKey{Key: key.Public(), KeyID: id} }
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	many := make([]jose.JSONWebKey, satoken.MaxKeys+1)
	for i := range many {
		many[i] = ec(fmt.Sprint(i))
	}
	for name, tc := range map[string]struct {
		issuer, jwks string
		want         error
	}{
		"one key":                     {"i", set(t, ec("a")), nil},
		"as many as may be":           {"i", set(t, many[1:]...), nil},
		"an unknown kind is left out": {"i", `{"keys":[{"kty":"AKP","kid":"x"},` + strings.TrimPrefix(set(t, ec("a")), `{"keys":[`), nil},
		"one more":                    {"i", set(t, many...), satoken.ErrNoKeys},
		"none":                        {"i", `{"keys":[]}`, satoken.ErrNoKeys},
		"only an unknown kind":        {"i", `{"keys":[{"kty":"AKP","kid":"x"}]}`, satoken.ErrNoKeys},
		"another document":            {"i", `{}`, satoken.ErrNoKeys},
		"no document":                 {"i", `keys`, satoken.ErrJWKS},
		"no key in it":                {"i", `{"keys":[null]}`, satoken.ErrJWKS},
		"a point off the curve":       {"i", `{"keys":[{"kty":"EC","kid":"x","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}]}`, satoken.ErrJWKS},
		"too large a document":        {"i", set(t, ec("a")) + strings.Repeat(" ", 65536), satoken.ErrJWKS},
		"no issuer":                   {"", set(t, ec("a")), satoken.ErrIssuer},
		"too long an issuer":          {strings.Repeat("i", 1025), set(t, ec("a")), satoken.ErrIssuer},
		"a private key":               {"i", set(t, jose.JSONWebKey{Key: key, KeyID: "a"}), satoken.ErrBadKey},
		"a shared secret":             {"i", set(t, jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "a"}), satoken.ErrBadKey},
		"an algorithm of no cluster":  {"i", set(t, jose.JSONWebKey{Key: public, KeyID: "a"}), satoken.ErrBadKey},
		"a short RSA key":             {"i", set(t, jose.JSONWebKey{Key: weak.Public(), KeyID: "a"}), satoken.ErrBadKey},
		"a key for encryption":        {"i", set(t, jose.JSONWebKey{Key: key.Public(), KeyID: "a", Use: "enc"}), satoken.ErrBadKey},
		"a key without an ID":         {"i", set(t, ec("")), satoken.ErrBadKey},
		"an ID that is a text":        {"i", set(t, ec("pay here: http://x\n")), satoken.ErrBadKey},
		"too long an ID":              {"i", set(t, ec(strings.Repeat("a", 129))), satoken.ErrBadKey},
		"one ID for two keys":         {"i", set(t, ec("a"), jose.JSONWebKey{Key: spoketest.Key(t).Public(), KeyID: "a"}), satoken.ErrTwoKeys},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := satoken.ParseKeys(tc.issuer, []byte(tc.jwks))
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err != nil {
				return
			}
			text, err := keys.JWKS()
			if err != nil {
				t.Fatal(err)
			}
			again, err := satoken.ParseKeys(keys.Issuer, []byte(text))
			if err != nil || len(again.Missing(keys))+len(keys.Missing(again)) != 0 {
				t.Errorf("it does not read back: %v", err)
			}
		})
	}
}

func TestKeys_MissingAndUnion(t *testing.T) {
	a, b, imposter := spoketest.NewIssuer(t), spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	imposter.KeyID = a.KeyID
	for name, tc := range map[string]struct {
		pinned, published satoken.Keys
		missing, after    []string // before and after the union
	}{
		"the same keys":              {keysOf(t, a, b), keysOf(t, b, a), nil, nil},
		"a key that went":            {keysOf(t, a, b), keysOf(t, a), nil, nil},
		"a key that came":            {keysOf(t, a), keysOf(t, a, b), []string{b.KeyID}, nil},
		"another key under its ID":   {keysOf(t, a), keysOf(t, imposter), []string{a.KeyID}, []string{a.KeyID}},
		"nothing is pinned as yet":   {satoken.Keys{}, keysOf(t, a), []string{a.KeyID}, nil},
		"all keys are other than it": {keysOf(t, a), keysOf(t, b), []string{b.KeyID}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.published.Missing(tc.pinned); !slices.Equal(got, tc.missing) {
				t.Errorf("missing %q, want %q", got, tc.missing)
			}
			if got := tc.published.Missing(tc.pinned.Union(tc.published)); !slices.Equal(got, tc.after) {
				t.Errorf("missing after the union %q, want %q", got, tc.after)
			}
		})
	}
}

func TestKeys_ExtendForgetsTheOldestThatIsNotPublished(t *testing.T) {
	var issuers []*spoketest.Issuer
	for range satoken.MaxKeys + 2 {
		issuers = append(issuers, spoketest.NewIssuer(t))
	}
	full := keysOf(t, issuers[0], issuers[1:satoken.MaxKeys]...)
	published := keysOf(t, issuers[0], issuers[satoken.MaxKeys:]...)
	got := full.Extend(published)
	if missing := published.Missing(got); missing != nil {
		t.Errorf("it misses published keys %q", missing)
	}
	if gone, want := full.Missing(got), []string{issuers[1].KeyID, issuers[2].KeyID}; !slices.Equal(gone, want) {
		t.Errorf("gone are %q, want %q", gone, want)
	}
	text, err := got.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := satoken.ParseKeys(got.Issuer, []byte(text)); err != nil {
		t.Errorf("what is stored does not read back: %v", err)
	}
}
