package policy_test

import (
	"errors"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
)

func TestCanonicalKey_Accepts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ raw, want string }{
		"a plain key stays":                             {"secret/postgres", "secret/postgres"},
		"one segment stays":                             {"a", "a"},
		"one leading slash is dropped":                  {"/a/b", "a/b"},
		"a blank is kept":                               {"a b/ c ", "a b/ c "},
		"letters beyond ASCII are kept":                 {"café/数据/😀", "café/数据/😀"},
		"two spellings of one letter are two keys":      {"cafe\u0301", "cafe\u0301"},
		"three dots are a name":                         {"a/.../b", "a/.../b"},
		"a dotfile is a name":                           {".env", ".env"},
		"wildcards and braces are only text":            {"a*/{cluster}/**", "a*/{cluster}/**"},
		"ampersand, equals and semicolon are only text": {"a&b=c;d", "a&b=c;d"},
		"1024 characters are not too long":              {strings.Repeat("é", 1024), strings.Repeat("é", 1024)},
		"the replacement character itself is a letter":  {"a\uFFFDb", "a\uFFFDb"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := policy.CanonicalKey(tc.raw)
			if err != nil || string(got) != tc.want {
				t.Errorf("CanonicalKey(%q) = %q, %v; want %q", tc.raw, got, err, tc.want)
			}
		})
	}
}

func TestCanonicalKey_Refuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		raw   string
		fault policy.KeyFault
		at    int
	}{
		"an empty key":                      {"", policy.FaultEmpty, 0},
		"a slash alone":                     {"/", policy.FaultEmpty, 1},
		"two leading slashes":               {"//a", policy.FaultEmptySegment, 1},
		"a double slash inside":             {"a//b", policy.FaultEmptySegment, 2},
		"a trailing slash":                  {"a/b/", policy.FaultEmptySegment, 4},
		"a dot segment":                     {"a/./b", policy.FaultDotSegment, 2},
		"a parent segment":                  {"a/../b", policy.FaultDotSegment, 2},
		"a parent segment at the start":     {"/../a", policy.FaultDotSegment, 1},
		"a parent segment at the end":       {"a/..", policy.FaultDotSegment, 2},
		"an escaped slash":                  {"a%2Fb", policy.FaultReserved, 1},
		"an escaped parent segment":         {"a/%2e%2e/b", policy.FaultReserved, 2},
		"a query":                           {"a?recurse=true", policy.FaultReserved, 1},
		"a fragment":                        {"a#b", policy.FaultReserved, 1},
		"a backslash":                       {`a\b`, policy.FaultReserved, 1},
		"a NUL":                             {"a\x00b", policy.FaultControl, 1},
		"a line break":                      {"a\nb", policy.FaultControl, 1},
		"a delete character":                {"a\x7fb", policy.FaultControl, 1},
		"a control character beyond ASCII":  {"a\u0085b", policy.FaultControl, 1},
		"invalid UTF-8":                     {"a/\xff", policy.FaultEncoding, 2},
		"an overlong encoding of the slash": {"a\xc0\xafb", policy.FaultEncoding, 1},
		"1025 characters":                   {strings.Repeat("a", 1025), policy.FaultTooLong, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := policy.CanonicalKey(tc.raw)
			keyErr, ok := errors.AsType[*policy.KeyError](err)
			if !ok {
				t.Fatalf("CanonicalKey(%q) = %q, %v; want a KeyError", tc.raw, got, err)
			}
			if got != "" || keyErr.Fault != tc.fault || keyErr.Position != tc.at {
				t.Errorf("got key %q, %q at %d; want none, %q at %d", got, keyErr.Fault, keyErr.Position, tc.fault, tc.at)
			}
			if keyErr.Reason() != v1alpha1.ReasonKeyInvalid {
				t.Errorf("reason %s", keyErr.Reason())
			}
			if !strings.Contains(err.Error(), string(tc.fault)) || len(err.Error()) > 1024 {
				t.Errorf("text %q", err)
			}
		})
	}
}

func FuzzCanonicalKey(f *testing.F) {
	for _, seed := range []string{"/a/b", "a//b", "a/../b", "a%2Fb", "a?recurse=true", "a b", "é", "a\xff", "\\", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		key, err := policy.CanonicalKey(raw)
		if err != nil {
			if keyErr, ok := errors.AsType[*policy.KeyError](err); !ok || keyErr.Position > len(raw) {
				t.Fatalf("%q: error %v", raw, err)
			}
			return
		}
		text := string(key)
		if again, err := policy.CanonicalKey(text); err != nil || again != key {
			t.Fatalf("%q: not stable: %q, %v", raw, again, err)
		}
		if path.Clean(text) != text || strings.HasPrefix(text, "/") {
			t.Fatalf("%q: %q is another path when cleaned", raw, text)
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsAny(text, `?#%\`) {
			t.Fatalf("%q: %q holds what no key holds", raw, text)
		}
	})
}
