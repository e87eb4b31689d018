package render

import (
	"math"
	"strconv"
	"strings"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// writeTOML writes scalars and arrays before sub-tables, and an empty document
// as nothing.
func writeTOML(out *output, doc table) error {
	var found findings
	doc.walk(func(at path, value any) {
		switch v := value.(type) {
		case nil:
			found.add("null", at)
		case integer:
			if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
				found.add("an integer beyond 64 bits", at)
			}
		}
	})
	if err := found.refusal(v1alpha1.ReasonShapeInvalid, "a TOML file cannot hold"); err != nil {
		return err
	}
	tomlBody(out, doc, "")
	return nil
}

// tomlBody writes the members of a table whose header is written; prefix is the
// name in front of its sub-tables' names, with its dot.
func tomlBody(out *output, t table, prefix string) {
	for _, m := range t {
		if out.full() {
			return
		}
		if !hasHeader(m.value) {
			out.add(tomlKey(m.key), " = ")
			tomlValue(out, m.value)
			out.add("\n")
		}
	}
	for _, m := range t {
		if out.full() {
			return
		}
		if hasHeader(m.value) {
			tomlSub(out, m.value, prefix+tomlKey(m.key))
		}
	}
}

// tomlSub writes a table or an array of tables. A table of nothing but other
// tables needs no header of its own.
func tomlSub(out *output, value any, name string) {
	if sub, ok := value.(table); ok {
		if len(sub) == 0 || hasOwnLines(sub) {
			heading(out, "[", name, "]")
		}
		tomlBody(out, sub, name+".")
		return
	}
	items, _ := value.(array)
	for _, item := range items {
		if out.full() {
			return
		}
		sub, _ := item.(table)
		heading(out, "[[", name, "]]")
		tomlBody(out, sub, name+".")
	}
}

// heading writes a header line, after a blank line unless it is the first.
func heading(out *output, open, name, end string) {
	if len(out.buf) > 0 {
		out.add("\n")
	}
	out.add(open, name, end, "\n")
}

func hasOwnLines(t table) bool {
	for _, m := range t {
		if !hasHeader(m.value) {
			return true
		}
	}
	return false
}

// hasHeader tells tables and arrays of nothing but tables from other values.
func hasHeader(value any) bool {
	switch v := value.(type) {
	case table:
		return true
	case array:
		for _, item := range v {
			if _, ok := item.(table); !ok {
				return false
			}
		}
		return len(v) > 0
	default:
		return false
	}
}

// tomlValue writes a value on one line; a table in it is an inline one.
func tomlValue(out *output, value any) {
	switch v := value.(type) {
	case string:
		out.buf = appendTOMLString(out.buf, v)
	case float64:
		out.add(tomlFloat(v))
	case array:
		out.add("[")
		for i, item := range v {
			if out.full() {
				return
			}
			if i > 0 {
				out.add(", ")
			}
			tomlValue(out, item)
		}
		out.add("]")
	case table:
		out.add("{")
		for i, m := range v {
			if out.full() {
				return
			}
			if i > 0 {
				out.add(",")
			}
			out.add(" ", tomlKey(m.key), " = ")
			tomlValue(out, m.value)
		}
		out.add(" }")
	default:
		out.add(scalarText(value))
	}
}

func tomlFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	default:
		return plainFloat(f)
	}
}

func tomlKey(key string) string {
	if key != "" && !strings.ContainsFunc(key, func(r rune) bool { return !isWord(r) }) {
		return key
	}
	return string(appendTOMLString(nil, key))
}

// appendTOMLString appends a basic string. It is a JSON string in which the
// delete character is escaped as well.
func appendTOMLString(buf []byte, text string) []byte {
	for i, part := range strings.Split(text, "\x7F") {
		quoted := appendQuoted(nil, part)
		if i == 0 {
			buf = append(buf, '"')
		} else {
			buf = append(buf, `\u007F`...)
		}
		buf = append(buf, quoted[1:len(quoted)-1]...)
	}
	return append(buf, '"')
}
