// Package enrol prepares the enrolment of a workload cluster: it reads the keys that the
// cluster signs its ServiceAccounts' tokens with, and writes the command that installs
// the agent. It writes nothing to any cluster.
package enrol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// Where an API server publishes what its ServiceAccounts' tokens are verified with.
const (
	discoveryPath = "/.well-known/openid-configuration"
	keysPath      = "/openid/v1/jwks"
)

// privateMembers are the parts of a JSON Web Key that no published key may have
// (RFC 7518, 6.2.2, 6.3.2 and 6.4.1).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// ReadKeys asks an API server for its issuer and its public keys.
func ReadKeys(ctx context.Context, config *rest.Config) (*v1alpha1.ClusterKeys, error) {
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := api.RESTClient().Get().AbsPath(discoveryPath).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", discoveryPath, err)
	}
	var said struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(text, &said); err != nil || said.Issuer == "" {
		return nil, fmt.Errorf("%s names no issuer", discoveryPath)
	}
	text, err = api.RESTClient().Get().AbsPath(keysPath).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", keysPath, err)
	}
	jwks, err := compact(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keysPath, err)
	}
	return &v1alpha1.ClusterKeys{Issuer: said.Issuer, JWKS: jwks}, nil
}

// compact checks a key set and leaves out blanks.
func compact(text []byte) (string, error) {
	keys, err := keysIn(string(text))
	if err != nil {
		return "", err
	}
	if len(keys) == 0 {
		return "", errors.New("the key set is empty")
	}
	for _, key := range keys {
		for _, member := range privateMembers {
			if _, ok := key[member]; ok {
				return "", errors.New("the key set holds a private or a symmetric key")
			}
		}
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return "", errors.New("the key set is no JSON")
	}
	return out.String(), nil
}

// keysIn are the keys of a set.
func keysIn(jwks string) ([]map[string]json.RawMessage, error) {
	var set struct {
		Keys []map[string]json.RawMessage `json:"keys"`
	}
	if json.Unmarshal([]byte(jwks), &set) != nil {
		return nil, errors.New("the key set is no JSON")
	}
	return set.Keys, nil
}

// KeyIDs are the IDs of the keys in a set, for people.
func KeyIDs(keys *v1alpha1.ClusterKeys) []string {
	set, err := keysIn(keys.JWKS)
	if err != nil {
		return nil
	}
	ids := make([]string, 0, len(set))
	for _, key := range set {
		ids = append(ids, strings.Trim(string(key["kid"]), `"`))
	}
	return ids
}

// SharesKey says whether two sets have a key in common. Two sets of one cluster do, since
// a key that is rotated stays published for a while; two clusters never do.
func SharesKey(a, b *v1alpha1.ClusterKeys) bool {
	have := map[string]bool{}
	as, errA := keysIn(a.JWKS)
	bs, errB := keysIn(b.JWKS)
	if errA != nil || errB != nil {
		return false
	}
	for _, key := range as {
		have[material(key)] = true
	}
	for _, key := range bs {
		if have[material(key)] {
			return true
		}
	}
	return false
}

// material is what makes a public key: its numbers, whatever it is called.
func material(key map[string]json.RawMessage) string {
	var parts []string
	for _, member := range []string{"kty", "crv", "n", "e", "x", "y"} {
		parts = append(parts, string(key[member]))
	}
	return strings.Join(parts, "|")
}
