package render

import (
	"regexp"
	"strings"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// naming makes the names of values from their paths: parts, each with its
// characters mapped, joined by a separator.
type naming struct {
	separator string
	part      func(key string, first bool) string
}

var (
	dotted    = naming{".", func(key string, _ bool) string { return key }}
	variables = naming{"_", variablePart}
)

// each visits the members that match, depth first. It returns false where it has
// stopped, because the names had become longer than any output may be.
func (n naming) each(doc table, match func(value any) bool, visit func(at path, name string, value any)) bool {
	var name []byte
	length := 0
	var members func(t table, at path) bool
	members = func(t table, at path) bool {
		prefix := len(name)
		for _, m := range t {
			here := at.key(m.key)
			name = append(name[:prefix], n.part(m.key, len(at) == 0)...)
			if match(m.value) {
				visit(here, string(name), m.value)
				length += len(name)
			}
			if length > outputStop {
				return false
			}
			if sub, ok := m.value.(table); ok {
				name = append(name, n.separator...)
				if !members(sub, here) {
					return false
				}
			}
		}
		return true
	}
	return members(doc, rootPath())
}

// isLeaf tells what gets an entry: an array does.
func isLeaf(value any) bool {
	_, ok := value.(table)
	return !ok
}

// collisions refuses values that get one name, of those that match. Where it
// does not refuse, each visits all of them.
func collisions(doc table, n naming, match func(value any) bool, what string) error {
	count, twice := map[string]int{}, false
	complete := n.each(doc, match, func(_ path, name string, _ any) {
		count[name]++
		twice = twice || count[name] > 1
	})
	if !complete {
		return tooLarge(outputStop + 1)
	}
	if !twice {
		return nil
	}
	var found findings
	n.each(doc, match, func(at path, name string, _ any) {
		if count[name] > 1 {
			found.add("the name "+quotedKey(name), at)
		}
	})
	return found.refusal(v1alpha1.ReasonKeyCollision, what)
}

// entries makes one entry a leaf, named by its dotted path.
func entries(doc table) (map[string][]byte, error) { return dotted.entries(doc) }

// envEntries makes one entry a leaf, named as an environment variable.
func envEntries(doc table) (map[string][]byte, error) { return variables.entries(doc) }

func (n naming) entries(doc table) (map[string][]byte, error) {
	if err := refuseNonFinite(doc, "an entry"); err != nil {
		return nil, err
	}
	var found findings
	n.each(doc, isLeaf, func(at path, name string, _ any) {
		if !validKey(name) {
			found.add("no valid data key", at)
		}
	})
	if err := found.refusal(v1alpha1.ReasonKeyInvalid, "the names of some values are"); err != nil {
		return nil, err
	}
	if err := collisions(doc, n, isLeaf, "two values would have"); err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	n.each(doc, isLeaf, func(_ path, name string, value any) { data[name] = entryValue(value) })
	return data, nil
}

// entryValue is the text of a leaf; an array is compact JSON.
func entryValue(value any) []byte {
	if items, ok := value.(array); ok {
		return appendJSON(nil, items, "")
	}
	return []byte(scalarText(value))
}

// variablePart maps a key's characters to those of environment variables, each
// to one; a name may not start with a digit.
func variablePart(key string, first bool) string {
	if first && key != "" && isDigit(rune(key[0])) {
		key = "_" + key
	}
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z' || isDigit(r):
			return r
		default:
			return '_'
		}
	}, key)
}

// longestKey is how long a data key may be.
const longestKey = 253

var dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// validKey tells whether the API server takes a name as a key of a ConfigMap or
// Secret.
func validKey(name string) bool {
	return len(name) <= longestKey && name != "." && !strings.HasPrefix(name, "..") && dataKey.MatchString(name)
}
