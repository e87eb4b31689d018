package mux

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

func TestSplit(t *testing.T) {
	cases := map[string]struct {
		keys []policy.Key
		most int
		want map[string][]policy.Key // by prefix
	}{
		"no key needs no query":     {nil, 4, map[string][]policy.Key{}},
		"one key is asked for":      {[]policy.Key{"a/b"}, 4, map[string][]policy.Key{"a/b": {"a/b"}}},
		"few keys are on their own": {[]policy.Key{"a/b", "a/c", "d"}, 4, map[string][]policy.Key{"a/b": {"a/b"}, "a/c": {"a/c"}, "d": {"d"}}},
		"one query watches what all share": {
			[]policy.Key{"app/x", "app/y"},
			1,
			map[string][]policy.Key{"app/": {"app/x", "app/y"}},
		},
		"keys that share nothing are below the root": {
			[]policy.Key{"a", "b"},
			1,
			map[string][]policy.Key{"": {"a", "b"}},
		},
		"the scope with most keys is cut first": {
			[]policy.Key{"a/1", "a/2", "b/1", "b/2", "b/3"},
			4,
			map[string][]policy.Key{"a/": {"a/1", "a/2"}, "b/1": {"b/1"}, "b/2": {"b/2"}, "b/3": {"b/3"}},
		},
		"a key that others begin with is on its own": {
			[]policy.Key{"a", "ab1", "ab2"},
			2,
			map[string][]policy.Key{"a": {"a"}, "ab": {"ab1", "ab2"}},
		},
		"a flat folder is cut by letters": {
			[]policy.Key{"k10", "k11", "k20", "k21"},
			2,
			map[string][]policy.Key{"k1": {"k10", "k11"}, "k2": {"k20", "k21"}},
		},
		"a letter is not cut in two": {
			[]policy.Key{"é", "è"},
			1,
			map[string][]policy.Key{"": {"è", "é"}},
		},
		"what does not fit stays whole": {
			[]policy.Key{"a", "b", "c"},
			2,
			map[string][]policy.Key{"": {"a", "b", "c"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string][]policy.Key{}
			for _, s := range split(tc.keys, tc.most) {
				got[s.prefix] = s.keys
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSplit_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é数")), 1, 8, -1)
		set := rapid.MapOfN(letters, rapid.Bool(), 0, 200).Draw(t, "keys")
		most := rapid.IntRange(1, 20).Draw(t, "most")
		var keys []policy.Key
		for key := range set { // in any order
			keys = append(keys, policy.Key(key))
		}
		scopes := split(keys, most)

		seen, ids := map[policy.Key]bool{}, map[string]bool{}
		for _, s := range scopes {
			ids[s.id()] = true
			for _, key := range s.keys {
				if seen[key] || !strings.HasPrefix(string(key), s.prefix) || !utf8.ValidString(s.prefix) {
					t.Fatalf("key %q twice, or not below %q", key, s.prefix)
				}
				seen[key] = true
			}
			if n := len(cut(s)); n > 1 && len(scopes)-1+n <= most {
				t.Fatalf("%q stayed whole while there was room for its %d parts", s.prefix, n)
			}
		}
		if len(seen) != len(keys) || len(scopes) > most || len(ids) != len(scopes) {
			t.Fatalf("%d of %d keys in %d scopes of %d ids, at most %d", len(seen), len(keys), len(scopes), len(ids), most)
		}
		if len(keys) <= most && len(scopes) != len(keys) {
			t.Fatalf("%d keys share %d queries while there is room for each", len(keys), len(scopes))
		}
		again := split(slices.Collect(maps.Keys(seen)), most)
		byID := func(a, b scope) int { return cmp.Compare(a.id(), b.id()) }
		slices.SortFunc(scopes, byID)
		slices.SortFunc(again, byID)
		if !slices.EqualFunc(scopes, again, func(a, b scope) bool { return a.id() == b.id() && slices.Equal(a.keys, b.keys) }) {
			t.Fatal("the order of the keys makes a difference")
		}
	})
}

func TestCalm(t *testing.T) {
	cases := map[string]struct {
		vain int
		want time.Duration
	}{
		"news cost no pause":             {0, 0},
		"once in vain is two seconds":    {1, 2 * time.Second},
		"more often doubles it":          {3, 8 * time.Second},
		"never more than a poll's pause": {4, calmest},
		"not for ever either":            {1 << 40, calmest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := calm(tc.vain); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
