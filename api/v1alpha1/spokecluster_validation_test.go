package v1alpha1_test

import (
	"strings"
	"testing"
)

func TestSpokeCluster_Name(t *testing.T) {
	const says = "the name must be a DNS label of at most 63 characters: it becomes part of the cluster's certificate"
	for name, c := range map[string]struct{ cluster, says string }{
		"a label is accepted":                  {cluster: "prod-eu-1"},
		"one character is accepted":            {cluster: "a"},
		"a digit in front is accepted":         {cluster: "1a"},
		"63 characters are accepted":           {cluster: strings.Repeat("a", 63)},
		"64 characters are refused":            {strings.Repeat("a", 64), says},
		"a dot is refused":                     {"prod.eu", says},
		"a capital is refused":                 {"Prod", "metadata.name"},
		"a dash in front is refused":           {"-a", "metadata.name"},
		"a dash at the end is refused":         {"a-", "metadata.name"},
		"a slash is refused":                   {"a/b", "metadata.name"},
		"a name that hides a label is refused": {"a.b-", "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			checkVerdict(t, object(t, "SpokeCluster", c.cluster, "{}"), c.says)
		})
	}
}

func TestSpokeCluster_JoinToken(t *testing.T) {
	token := func(hash string) string {
		return "{joinToken: {sha256: '" + hash + "', expiresAt: '2030-01-01T00:00:00Z'}}"
	}
	hash := strings.Repeat("0123456789abcdef", 4)
	const says = "spec.joinToken.sha256 in body should match '^[0-9a-f]{64}$'"
	checkVerdicts(t, "SpokeCluster", map[string]verdict{
		"a hash is accepted":                    {spec: token(hash)},
		"an accepted, suspended one is fine":    {spec: "{accepted: true, suspend: true}"},
		"63 digits are refused":                 {token(hash[1:]), says},
		"65 digits are refused":                 {token(hash + "0"), says},
		"capitals are refused":                  {token(strings.ToUpper(hash)), says},
		"a letter that is no digit is refused":  {token("g" + hash[1:]), says},
		"an empty hash is refused":              {token(""), says},
		"a token instead of its hash is a miss": {token("join-me"), says},
		"no expiry is refused":                  {"{joinToken: {sha256: '" + hash + "'}}", "spec.joinToken.expiresAt: Required value"},
		"no hash is refused":                    {"{joinToken: {expiresAt: '2030-01-01T00:00:00Z'}}", "spec.joinToken.sha256: Required value"},
		"an expiry that is no time is refused":  {"{joinToken: {sha256: '" + hash + "', expiresAt: tomorrow}}", "spec.joinToken.expiresAt"},
	})
}
