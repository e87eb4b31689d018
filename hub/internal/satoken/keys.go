package satoken

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

const (
	// MaxKeys of one cluster. An API server has one key, or two while it rotates.
	MaxKeys = 16
	// maxIssuer and maxJWKS are what the API allows a SpokeCluster to state.
	maxIssuer, maxJWKS = 1024, 65536
	// minRSABits is what kube-apiserver and kubeadm make. maxRSABits bounds the time
	// a check takes, which grows with the square of it.
	minRSABits, maxRSABits = 2048, 8192
)

// keyID is what an ID may be: it is shown to people in a condition. Those of
// Kubernetes are 43 characters of base64url.
var keyID = regexp.MustCompile(`^[A-Za-z0-9._~:/+=-]{1,128}$`)

// Why keys cannot be used.
var (
	ErrIssuer  = errors.New("the issuer is empty or longer than 1024 bytes")
	ErrJWKS    = errors.New("the keys are no JSON Web Key Set of at most 64 KiB")
	ErrNoKeys  = errors.New("the key set has no RSA or ECDSA key, or more than 16")
	ErrBadKey  = errors.New("a key is private, has no usable ID, or is RSA of less than 2048 or more than 8192 bits")
	ErrTwoKeys = errors.New("two keys have one ID")
)

// Keys are what a cluster signs its ServiceAccounts' tokens with. They never change.
type Keys struct {
	// Issuer that the tokens name.
	Issuer string
	keys   []jose.JSONWebKey // public, each with an ID of its own
}

// ParseKeys reads an issuer and a JSON Web Key Set, as an API server publishes it.
// Kinds of keys that it does not know are left out.
func ParseKeys(issuer string, jwks []byte) (Keys, error) {
	if issuer == "" || len(issuer) > maxIssuer {
		return Keys{}, ErrIssuer
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(jwks) > maxJWKS || json.Unmarshal(jwks, &set) != nil {
		return Keys{}, ErrJWKS
	}
	k := Keys{Issuer: issuer}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		err := key.UnmarshalJSON(raw)
		switch {
		case errors.Is(err, jose.ErrUnsupportedKeyType):
			continue
		case err != nil:
			return Keys{}, ErrJWKS // the error may quote the text
		case !usable(key):
			return Keys{}, ErrBadKey
		case k.find(key.KeyID) != nil:
			return Keys{}, ErrTwoKeys
		}
		// Only what verifies: certificates and addresses beside the key count for nothing.
		k.keys = append(k.keys, jose.JSONWebKey{Key: key.Key, KeyID: key.KeyID, Algorithm: key.Algorithm, Use: key.Use})
	}
	if len(k.keys) == 0 || len(k.keys) > MaxKeys {
		return Keys{}, ErrNoKeys
	}
	return k, nil
}

// usable says whether a key can be pinned.
func usable(key jose.JSONWebKey) bool {
	if !keyID.MatchString(key.KeyID) || (key.Use != "" && key.Use != "sig") {
		return false
	}
	switch public := key.Key.(type) {
	case *ecdsa.PublicKey:
		return true
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		return bits >= minRSABits && bits <= maxRSABits
	}
	return false
}

// JWKS is the JSON Web Key Set.
func (k Keys) JWKS() (string, error) {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: k.keys})
	if err != nil {
		return "", fmt.Errorf("encode keys: %w", err)
	}
	return string(text), nil
}

// Missing returns the IDs of the keys that pinned does not hold, an ID with another
// key there among them.
func (k Keys) Missing(pinned Keys) []string {
	var ids []string
	for _, key := range k.keys {
		if known := pinned.find(key.KeyID); known == nil || !equal(known.Key, key.Key) {
			ids = append(ids, key.KeyID)
		}
	}
	return ids
}

// Union adds the keys of another set whose IDs are not taken. The issuer stays.
func (k Keys) Union(more Keys) Keys {
	all := Keys{Issuer: k.Issuer, keys: slices.Clone(k.keys)}
	for _, key := range more.keys {
		if all.find(key.KeyID) == nil {
			all.keys = append(all.keys, key)
		}
	}
	return all
}

// Extend is Union of at most MaxKeys: where there are more, the oldest of those that
// are not published any more go.
func (k Keys) Extend(published Keys) Keys {
	all := k.Union(published)
	for len(all.keys) > MaxKeys {
		oldest := slices.IndexFunc(all.keys, func(key jose.JSONWebKey) bool { return published.find(key.KeyID) == nil })
		all.keys = slices.Delete(all.keys, oldest, oldest+1)
	}
	return all
}

// find returns the key of an ID; nil for none.
func (k Keys) find(id string) *jose.JSONWebKey {
	for i := range k.keys {
		if k.keys[i].KeyID == id {
			return &k.keys[i]
		}
	}
	return nil
}

// equal says whether two public keys are one.
func equal(a, b any) bool {
	switch a := a.(type) {
	case *rsa.PublicKey:
		b, ok := b.(*rsa.PublicKey)
		return ok && a.Equal(b)
	case *ecdsa.PublicKey:
		b, ok := b.(*ecdsa.PublicKey)
		return ok && a.Equal(b)
	}
	return false
}
