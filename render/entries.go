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

// each visits all members of the document depth first, tables included, until
// visit returns false or the names have grown beyond all measure.
func (n naming) each(doc table, visit func(at path, name string, value any) bool) {
	length := 0
	var members func(t table, at path, prefix string) bool
	members = func(t table, at path, prefix string) bool {
		for _, m := range t {
			name, here := prefix+n.part(m.key, len(at) == 0), at.key(m.key)
			length += len(name)
			if !visit(here, name, m.value) || length > outputStop {
				return false
			}
			sub, ok := m.value.(table)
			if ok && !members(sub, here, name+n.separator) {
				return false
			}
		}
		return true
	}
	members(doc, rootPath(), "")
}

// isLeaf tells what gets an entry: an array does.
func isLeaf(value any) bool {
	_, ok := value.(table)
	return !ok
}

// collisions refuses values that get one name, of those that match.
func collisions(doc table, n naming, match func(value any) bool, what string) error {
	count, twice := map[string]int{}, false
	n.each(doc, func(_ path, name string, value any) bool {
		if match(value) {
			count[name]++
			twice = twice || count[name] > 1
		}
		return true
	})
	if !twice {
		return nil
	}
	var found findings
	n.each(doc, func(at path, name string, value any) bool {
		if match(value) && count[name] > 1 {
			found.add("the name "+quotedKey(name), at)
		}
		return true
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
	n.each(doc, func(at path, name string, value any) bool {
		if isLeaf(value) && !validKey(name) {
			found.add("no valid data key", at)
		}
		return true
	})
	if err := found.refusal(v1alpha1.ReasonKeyInvalid, "the names of some values are"); err != nil {
		return nil, err
	}
	if err := collisions(doc, n, isLeaf, "two values would have"); err != nil {
		return nil, err
	}
	data, size := map[string][]byte{}, 0
	n.each(doc, func(_ path, name string, value any) bool {
		if isLeaf(value) {
			data[name] = entryValue(value)
			size += len(name) + len(data[name])
		}
		return size <= outputStop
	})
	if size > outputStop {
		return nil, tooLarge(size)
	}
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
