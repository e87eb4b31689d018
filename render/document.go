package render

import (
	"slices"
	"strconv"
	"strings"
)

// maxDepth is how many tables and arrays may lie inside each other, the root
// included. Every reader checks it before it goes down.
const maxDepth = 128

// A value is nil (null), bool, integer, float64, string, array or table.
type (
	// integer is a whole number of any size as canonical decimal text.
	integer string
	array   []any
	// table is sorted by the bytes of its keys, which are unique.
	table  []member
	member struct {
		key   string
		value any
	}
)

// compareKeys orders members as every output does.
func compareKeys(a, b member) int { return strings.Compare(a.key, b.key) }

// newTable sorts members into a table; a key that occurs twice is refused. The
// table takes over the slice.
func newTable(members []member, at path) (table, error) {
	slices.SortStableFunc(members, compareKeys)
	for i := 1; i < len(members); i++ {
		if members[i].key == members[i-1].key {
			return nil, invalid(at.key(members[i].key), "the key is there twice")
		}
	}
	return members, nil
}

// find looks a key up.
func (t table) find(key string) (any, bool) {
	i, ok := slices.BinarySearchFunc(t, key, func(m member, key string) int { return strings.Compare(m.key, key) })
	if !ok {
		return nil, false
	}
	return t[i].value, true
}

// without is the table with one key left out.
func (t table) without(key string) table {
	if _, ok := t.find(key); !ok {
		return t
	}
	return slices.DeleteFunc(slices.Clone(t), func(m member) bool { return m.key == key })
}

// walk visits every value below the table, depth first and in order: tables and
// arrays before what is in them.
func (t table) walk(visit func(at path, value any)) { t.walkAt(rootPath(), visit) }

func (t table) walkAt(at path, visit func(at path, value any)) {
	for _, m := range t {
		walkValue(at.key(m.key), m.value, visit)
	}
}

func walkValue(at path, value any, visit func(at path, value any)) {
	visit(at, value)
	switch v := value.(type) {
	case table:
		v.walkAt(at, visit)
	case array:
		for i, item := range v {
			walkValue(at.index(i), item, visit)
		}
	}
}

// tree is a table while the INI and properties readers fill it: its values are
// trees and leaves.
type tree map[string]any

// table freezes the tree.
func (t tree) table() table {
	frozen := make(table, 0, len(t))
	for key, value := range t {
		if sub, ok := value.(tree); ok {
			value = sub.table()
		}
		frozen = append(frozen, member{key, value})
	}
	slices.SortFunc(frozen, compareKeys)
	return frozen
}

// maxPathText cuts a path in a refusal: a key may be megabytes long.
const maxPathText = 1000

// path is a place in a document. A path that was extended shares memory with its
// siblings: format it before the next one is made.
type path []step

// step is a key, or a position where key is nil.
type step struct {
	key      string
	position int
}

const isKey = -1

// rootPath is the empty path, with room for what most documents need.
func rootPath() path { return make(path, 0, 16) }

// key is the path of a table's member.
func (p path) key(key string) path { return append(p, step{key, isKey}) }

// index is the path of an array's item.
func (p path) index(i int) path { return append(p, step{position: i}) }

// keys is the path through nested tables.
func keys(names []string) path {
	p := make(path, 0, len(names))
	for _, name := range names {
		p = p.key(name)
	}
	return p
}

// String joins keys by dots and shows positions as [0].
func (p path) String() string {
	var text []byte
	for i, s := range p {
		if len(text) > maxPathText {
			return string(text) + "…"
		}
		if s.position != isKey {
			text = append(text, '[')
			text = strconv.AppendInt(text, int64(s.position), 10)
			text = append(text, ']')
			continue
		}
		if i > 0 {
			text = append(text, '.')
		}
		text = append(text, quotedKey(s.key)...)
	}
	return string(text)
}

// quotedKey shows a key in a path.
func quotedKey(key string) string {
	end := ""
	if len(key) > maxPathText {
		key, end = strings.ToValidUTF8(key[:maxPathText], ""), "…"
	}
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return !isWord(r) }) {
		key = strconv.Quote(key)
	}
	return key + end
}

// isWord tells the characters that keep their form in a path and in a TOML key.
func isWord(r rune) bool {
	return r == '_' || r == '-' || isLetter(r) || isDigit(r)
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func isDigit(r rune) bool { return '0' <= r && r <= '9' }
