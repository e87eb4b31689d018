package policy_test

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

func TestEvaluate_Patterns(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pattern string
		key     policy.Key
		who     func(*policy.Requester)
		want    bool
	}{
		"a literal matches itself":                     {pattern: "a/b", key: "a/b", want: true},
		"a leading slash is dropped as in keys":        {pattern: "/a/b", key: "a/b", want: true},
		"a literal matches no longer key":              {pattern: "a/b", key: "a/b/c"},
		"a literal matches no shorter key":             {pattern: "a/b", key: "a"},
		"a literal minds case":                         {pattern: "a/B", key: "a/b"},
		"a star is one whole segment":                  {pattern: "a/*/c", key: "a/b/c", want: true},
		"a star is not two segments":                   {pattern: "a/*", key: "a/b/c"},
		"a star is not no segment":                     {pattern: "a/*", key: "a"},
		"two stars at the end are the rest":            {pattern: "a/**", key: "a/b/c/d", want: true},
		"two stars at the end are at least one":        {pattern: "a/**", key: "a"},
		"two stars alone are every key":                {pattern: "**", key: "a/b", want: true},
		"two stars do not reach a sibling":             {pattern: "a/**", key: "ab/c"},
		"two stars in the middle match nothing":        {pattern: "a/**/c", key: "a/b/c"},
		"a partial wildcard matches nothing":           {pattern: "a*", key: "ab"},
		"a partial wildcard does not match itself":     {pattern: "a*", key: "a*"},
		"an unknown placeholder matches nothing":       {pattern: "{team}", key: "{team}"},
		"a lone brace matches nothing":                 {pattern: "a{", key: "a{"},
		"a pattern with an empty segment is invalid":   {pattern: "a//b", key: "a/b"},
		"a pattern with a parent segment is invalid":   {pattern: "a/../b", key: "b"},
		"an empty pattern matches nothing":             {pattern: "", key: "a"},
		"the requester's own cluster and namespace":    {pattern: "s/{cluster}/{namespace}/**", key: "s/east-1/team-a/db", want: true},
		"another cluster's keys":                       {pattern: "s/{cluster}/**", key: "s/east-2/db"},
		"a cluster whose name is a prefix":             {pattern: "s/{cluster}/**", key: "s/east-11/db"},
		"a placeholder inside a segment":               {pattern: "x-{cluster}/*", key: "x-east-1/db", want: true},
		"both in one segment, which others could meet": {pattern: "{cluster}-{namespace}/*", key: "east-1-team-a/db"},
		"a placeholder itself is no key of anybody":    {pattern: "{namespace}/*", key: "{namespace}/db"},
		"a namespace called * is only a star":          {pattern: "{namespace}/db", key: "team-b/db", who: named("*")},
		"a namespace called ** is only two stars":      {pattern: "s/{namespace}", key: "s/a/b", who: named("**")},
		"a namespace with a slash spans no segments":   {pattern: "s/{namespace}/db", key: "s/a/b/db", who: named("a/b")},
		"a namespace that is a placeholder stays text": {pattern: "{namespace}/db", key: "east-1/db", who: named("{cluster}")},
		"a namespace that is a placeholder, literally": {pattern: "{namespace}/db", key: "{cluster}/db", who: named("{cluster}"), want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			only := class(func(c *policy.Class) { c.Keys = []string{tc.pattern} })
			refusal := policy.Evaluate(who(tc.who), only, policy.Request{Key: tc.key})
			if got := refusal == nil; got != tc.want {
				t.Errorf("pattern %q serves key %q: %t, want %t", tc.pattern, tc.key, got, tc.want)
			}
		})
	}
}

func named(namespace string) func(*policy.Requester) {
	return func(r *policy.Requester) { r.Namespace = namespace }
}

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	for _, valid := range []string{"a", "/a/*", "**", "a/**", "{cluster}/{namespace}/*", "x-{cluster}"} {
		if err := policy.CheckPattern(valid); err != nil {
			t.Errorf("CheckPattern(%q) = %v", valid, err)
		}
	}
	for _, invalid := range []string{"", "a*", "**/a", "a/***", "{x}", "a//b", "a?", "{{cluster}}", "a/", "{cluster}-{namespace}", "{namespace}{cluster}/a"} {
		err := policy.CheckPattern(invalid)
		if patternErr, ok := errors.AsType[*policy.PatternError](err); !ok || patternErr.Pattern != invalid {
			t.Errorf("CheckPattern(%q) = %v, want a PatternError", invalid, err)
		}
	}
}

// model is the pattern as a regular expression, written from the description of
// the language and not from its implementation.
func modelOf(segments []string, who policy.Requester) *regexp.Regexp {
	parts := make([]string, 0, len(segments))
	for _, segment := range segments {
		switch segment {
		case "*":
			parts = append(parts, "[^/]+")
		case "**":
			parts = append(parts, ".+")
		default:
			literal := strings.NewReplacer("{cluster}", who.Cluster, "{namespace}", who.Namespace).Replace(segment)
			parts = append(parts, regexp.QuoteMeta(literal))
		}
	}
	return regexp.MustCompile("^(?s:" + strings.Join(parts, "/") + ")$")
}

func model(segments []string) *regexp.Regexp { return modelOf(segments, who(nil)) }

// TestEvaluate_NoKeyLeavesItsPattern draws keys of awkward pieces and valid
// patterns: whatever is let through lies under the pattern in every reading a
// server could have of it.
func TestEvaluate_NoKeyLeavesItsPattern(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{
			"a", "b", "east-1", "team-a", "{cluster}", "*", "**", "", ".", "..", "%2e%2e", "a%2Fb", "a b", "é", "?x", "\\", "...",
		})
		raw := strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(t, "key"), "/")
		segment := rapid.SampledFrom([]string{"a", "b", "*", "{cluster}", "{namespace}", "é", "a b"})
		pattern := rapid.SliceOfN(segment, 1, 4).Draw(t, "pattern")
		if rapid.Bool().Draw(t, "rest") {
			pattern = append(pattern, "**")
		}

		key, err := policy.CanonicalKey(raw)
		if err != nil {
			return
		}
		only := class(func(c *policy.Class) { c.Keys = []string{strings.Join(pattern, "/")} })
		allowed := policy.Evaluate(who(nil), only, policy.Request{Key: key}) == nil
		if want := model(pattern).MatchString(string(key)); allowed != want {
			t.Fatalf("pattern %q, key %q: allowed %t, want %t", pattern, key, allowed, want)
		}
		if !allowed {
			return
		}
		cleaned := path.Clean("/" + string(key))
		if !model(pattern).MatchString(strings.TrimPrefix(cleaned, "/")) {
			t.Fatalf("pattern %q let %q out as %q", pattern, raw, cleaned)
		}
		if slices.Contains(key.Segments(), "..") {
			t.Fatalf("key %q holds a parent segment", key)
		}
	})
}
