package render

import (
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlKind says how a table came to be, which decides what may extend it.
type tomlKind int

const (
	tomlImplied tomlKind = iota // by a longer header: its own header may follow
	tomlHeader                  // by its own header
	tomlDotted                  // by dotted keys, or inline: only more of them extend it
)

// tomlTable is a table while it is read. Its values are *tomlTable, *tomlTables
// and finished ones.
type tomlTable struct {
	kind    tomlKind
	members map[string]any
}

// tomlTables is an array of tables.
type tomlTables struct{ items []*tomlTable }

func newTOMLTable(kind tomlKind) *tomlTable {
	return &tomlTable{kind: kind, members: map[string]any{}}
}

// table freezes the tree.
func (t *tomlTable) table() table {
	frozen := make(table, 0, len(t.members))
	for key, value := range t.members {
		switch v := value.(type) {
		case *tomlTable:
			value = v.table()
		case *tomlTables:
			items := make(array, 0, len(v.items))
			for _, item := range v.items {
				items = append(items, item.table())
			}
			value = items
		}
		frozen = append(frozen, member{key, value})
	}
	slices.SortFunc(frozen, compareKeys)
	return frozen
}

// header opens the table of a [header] or [[header]] and returns its level.
func (r *tomlReader) header(root *tomlTable, node *unstable.Node) (*tomlTable, int, error) {
	at, depth := r.where[:0], 1
	t := root
	for key := node.Child(); ; key = key.Next() {
		name := string(key.Data)
		at, depth = at.key(name), depth+1
		if depth > maxDepth {
			return nil, 0, tooDeep(at)
		}
		existing, taken := t.members[name]
		if key.Next() == nil {
			r.where = at
			return r.openTable(t, node.Kind, key, at, depth)
		}
		switch v := existing.(type) {
		case *tomlTable:
			t = v
		case *tomlTables:
			at, depth = at.index(len(v.items)-1), depth+1
			t = v.items[len(v.items)-1]
		default:
			if taken {
				return nil, 0, r.refuse(key, at, "the key is there already and is no table")
			}
			inner := newTOMLTable(tomlImplied)
			t.members[name] = inner
			t = inner
		}
	}
}

// openTable opens the table that the last part of a header names.
func (r *tomlReader) openTable(t *tomlTable, kind unstable.Kind, key *unstable.Node, at path, depth int) (*tomlTable, int, error) {
	name := string(key.Data)
	existing, taken := t.members[name]
	opened := newTOMLTable(tomlHeader)
	if kind == unstable.ArrayTable {
		list, ok := existing.(*tomlTables)
		if taken && !ok {
			return nil, 0, r.refuse(key, at, "the key is there already and is no array of tables")
		}
		if depth+1 > maxDepth {
			return nil, 0, tooDeep(at)
		}
		if !taken {
			list = &tomlTables{}
			t.members[name] = list
		}
		r.where = at.index(len(list.items))
		list.items = append(list.items, opened)
		return opened, depth + 1, nil
	}
	if implied, ok := existing.(*tomlTable); ok && implied.kind == tomlImplied {
		implied.kind = tomlHeader
		return implied, depth, nil
	}
	if taken {
		return nil, 0, r.refuse(key, at, "the key is there twice")
	}
	t.members[name] = opened
	return opened, depth, nil
}

// keyValue sets the value of a key, which may be dotted, in a table.
func (r *tomlReader) keyValue(t *tomlTable, node *unstable.Node, at path, depth int) error {
	for key := node.Value().Next(); ; key = key.Next() {
		name := string(key.Data)
		at = at.key(name)
		existing, taken := t.members[name]
		if key.Next() == nil {
			if taken {
				return r.refuse(key, at, "the key is there twice")
			}
			value, err := r.value(node.Value(), at, depth)
			t.members[name] = value
			return err
		}
		if depth++; depth > maxDepth {
			return tooDeep(at)
		}
		inner, ok := existing.(*tomlTable)
		if taken && (!ok || inner.kind != tomlDotted) {
			return r.refuse(key, at, "the key is there twice")
		}
		if !taken {
			inner = newTOMLTable(tomlDotted)
			t.members[name] = inner
		}
		t = inner
	}
}
