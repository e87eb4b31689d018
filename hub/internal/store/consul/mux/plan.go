package mux

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

// calmest is how rarely a group asks that wakes in vain: as rarely as a Render polls by
// default.
const calmest = 15 * time.Second

// scope is what one blocking query is about.
type scope struct {
	prefix string
	keys   []policy.Key // sorted; a single one is asked for itself
}

// id tells scopes apart: a query about a key from one about what begins with it.
func (s scope) id() string {
	if len(s.keys) == 1 {
		return "=" + string(s.keys[0])
	}
	return "*" + s.prefix
}

// split divides keys into no more scopes than most. Each has the longest prefix its
// keys share. It cuts the scope with most keys at the first letter in which they
// differ, as long as there is room for what that makes.
func split(keys []policy.Key, most int) []scope {
	if len(keys) == 0 {
		return nil
	}
	open := []scope{scopeOf(slices.Sorted(slices.Values(keys)))}
	var done []scope
	for len(open) > 0 {
		slices.SortFunc(open, func(a, b scope) int {
			return cmp.Or(cmp.Compare(len(a.keys), len(b.keys)), cmp.Compare(a.prefix, b.prefix))
		})
		largest := open[len(open)-1]
		open = open[:len(open)-1]
		parts := cut(largest)
		if len(parts) < 2 || len(open)+len(done)+len(parts) > most {
			done = append(done, largest)
			continue
		}
		open = append(open, parts...)
	}
	return done
}

// cut divides a scope at the letter behind its prefix.
func cut(s scope) []scope {
	var parts []scope
	for rest := s.keys; len(rest) > 0; {
		letter := letterAt(rest[0], len(s.prefix))
		end := 1
		for end < len(rest) && letterAt(rest[end], len(s.prefix)) == letter {
			end++
		}
		parts = append(parts, scopeOf(rest[:end]))
		rest = rest[end:]
	}
	return parts
}

// letterAt is -1 at the key's end.
func letterAt(key policy.Key, at int) rune {
	if at == len(key) {
		return -1
	}
	letter, _ := utf8.DecodeRuneInString(string(key[at:]))
	return letter
}

// scopeOf takes sorted keys: what the first and the last share, all share.
func scopeOf(keys []policy.Key) scope {
	first, last := string(keys[0]), string(keys[len(keys)-1])
	at := 0
	for at < len(first) && strings.HasPrefix(last, first[:at+1]) {
		at++
	}
	for at > 0 && at < len(first) && !utf8.RuneStart(first[at]) {
		at--
	}
	return scope{prefix: first[:at], keys: keys}
}

// calm is how long after its last query a group asks again that woke so many times in a
// row without news.
func calm(vain int) time.Duration {
	if vain == 0 {
		return 0
	}
	return min(time.Second<<min(vain, 10), calmest)
}
