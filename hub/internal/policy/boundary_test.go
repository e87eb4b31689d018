package policy_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

// readings are what a server, or a proxy before it, could make of a key on its way.
var readings = map[string]func(string) string{
	"cleaned":                   path.Clean,
	"cleaned below a root":      func(k string) string { return strings.TrimPrefix(path.Clean("/kv/"+k), "/kv/") },
	"unescaped":                 unescaped,
	"unescaped twice":           func(k string) string { return unescaped(unescaped(k)) },
	"escaped and unescaped":     func(k string) string { return unescaped((&url.URL{Path: k}).EscapedPath()) },
	"read as the path of a URL": asURL,
	"with slashes for Windows":  func(k string) string { return strings.ReplaceAll(k, `\`, "/") },
	"cut at a NUL":              func(k string) string { before, _, _ := strings.Cut(k, "\x00"); return before },
	"cut at a line's end":       func(k string) string { before, _, _ := strings.Cut(k, "\n"); return before },
	"without empty segments":    func(k string) string { return strings.ReplaceAll(k, "//", "/") },
}

func unescaped(k string) string {
	if plain, err := url.PathUnescape(k); err == nil {
		return plain
	}
	return k
}

func asURL(k string) string {
	u, err := url.Parse("http://store/" + (&url.URL{Path: "/" + k}).EscapedPath()[1:])
	if err != nil {
		return k
	}
	return strings.TrimPrefix(u.Path, "/")
}

// escapes are ways in which others left the place they were let into.
var escapes = []string{
	"a/../b", "a/./b", "a//b", "a/", "//a", "/../a", "..", ".", "a/..", "a/%2e%2e/b", "a/%2E%2E/b", "a/%252e%252e/b", "a%2fb", "a%2Fb",
	"a/..%2fb", "a/%c0%ae%c0%ae/b", "a/..;/b", "a/...//b", "a/.. /b", "a/ ../b", "a?b=/../c", "a#/../b", `a\..\b`, `a/..\b`, "a/..\x00/b", "a/\x00../b", "a\n/b",
	"a/\u2024\u2024/b", "a/\uff0e\uff0e/b", "a\uff0fb", "a/\u2025/b", "a\u2215b", "a\u2044b", "a/\ufe52\ufe52/b", "a\uff3cb", "\u202e/b", "a/.\u200b./b", "\ufeff../a",
	"a/\xc0\xae\xc0\xae/b", "a/\xe0\x80\xae/b", "\xff/b",
}

// holds says what must be true of every key that a pattern lets through: it is what was
// asked for, letter by letter; it lies under the pattern; and no reading of it is
// another key. Letters that only look like dots and slashes stay letters: no store here
// folds them, and neither does the canonical form.
func holds(t interface{ Fatalf(string, ...any) }, raw, pattern string, who policy.Requester) {
	key, err := policy.CanonicalKey(raw)
	if err != nil {
		return
	}
	only := class(func(c *policy.Class) { c.Keys = []string{pattern} })
	if policy.Evaluate(who, only, policy.Request{Key: key}) != nil {
		return
	}
	if string(key) != strings.TrimPrefix(raw, "/") {
		t.Fatalf("%q became %q", raw, key)
	}
	if policy.CheckPattern(pattern) != nil {
		t.Fatalf("the invalid pattern %q let %q through", pattern, key)
	}
	segments := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	if !modelOf(segments, who).MatchString(string(key)) {
		t.Fatalf("pattern %q let %q through for %s/%s", pattern, key, who.Cluster, who.Namespace)
	}
	for name, read := range readings {
		if got := read(string(key)); got != string(key) {
			t.Fatalf("pattern %q let %q through, which %s is %q", pattern, key, name, got)
		}
	}
}

func TestEvaluate_NoEscapeLeavesItsPattern(t *testing.T) {
	t.Parallel()
	prefixes := []string{"", "east-1/", "secret/east-1/team-a/", "/"}
	for _, escape := range escapes {
		for _, prefix := range prefixes {
			for _, pattern := range []string{"**", "a/**", "a/*", "*/*", "*/*/*", "{cluster}/**", "secret/{cluster}/{namespace}/**", "secret/{cluster}/{namespace}/*"} {
				holds(t, prefix+escape, pattern, who(nil))
			}
		}
	}
}

func FuzzEvaluate_NoKeyLeavesItsPattern(f *testing.F) {
	for _, escape := range escapes {
		f.Add("secret/east-1/team-a/"+escape, "secret/{cluster}/{namespace}/**", "east-1", "team-a")
	}
	f.Add("a/b", "{cluster}/{namespace}", "a", "b")
	f.Add("a/b/c", "{namespace}/*", "x", "a/b")
	f.Fuzz(func(t *testing.T, raw, pattern, cluster, namespace string) {
		holds(t, raw, pattern, who(func(r *policy.Requester) { r.Cluster, r.Namespace = cluster, namespace }))
	})
}

// TestEvaluate_NobodyReachesAnothersKeys: whatever a pattern with both names lets one
// requester read, it lets no other one read, whatever namespace the other one claims.
func TestEvaluate_NobodyReachesAnothersKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "b", "a-a", "b-a"})
		segment := rapid.SampledFrom([]string{"a", "*", "{cluster}", "{namespace}", "{cluster}-a", "a-{namespace}", "{cluster}-{namespace}", "{cluster}{namespace}"})
		pattern := strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "pattern"), "/")
		if !strings.Contains(pattern, "{cluster}") || !strings.Contains(pattern, "{namespace}") {
			return
		}
		// The same letters, cut into cluster and namespace at two places.
		x, y, z := part.Draw(t, "x"), part.Draw(t, "y"), part.Draw(t, "z")
		dash := rapid.SampledFrom([]string{"-", ""}).Draw(t, "dash")
		one := who(func(r *policy.Requester) { r.Cluster, r.Namespace = x+dash+y, z })
		other := who(func(r *policy.Requester) { r.Cluster, r.Namespace = x, y+dash+z })
		only := class(func(c *policy.Class) { c.Keys = []string{pattern} })
		key := policy.Key(strings.NewReplacer("{cluster}", one.Cluster, "{namespace}", one.Namespace, "*", "a").Replace(pattern))
		if policy.Evaluate(other, only, policy.Request{Key: key}) == nil {
			t.Fatalf("pattern %q: the key %q of %s/%s is served to %s/%s", pattern, key, one.Cluster, one.Namespace, other.Cluster, other.Namespace)
		}
	})
}
