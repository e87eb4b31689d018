package render

import (
	"strings"
	"unicode"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// isBlank tells what INI readers trim: white space, and the separators that
// Python counts among it.
func isBlank(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' }

func trimBlanks(text string) string { return strings.TrimFunc(text, isBlank) }

// readINI reads sections, which nest by dots, and keys, which do not.
func readINI(text string) (table, error) {
	root := tree{}
	section, at := root, rootPath()
	for number, line := range lines(text) {
		var err error
		line = trimBlanks(line)
		switch {
		case line == "" || line[0] == ';' || line[0] == '#':
		case line[0] == '[':
			section, at, err = iniSection(root, line, number)
		default:
			err = iniKey(section, at, line, number)
		}
		if err != nil {
			return nil, err
		}
	}
	return root.table(), nil
}

// iniSection opens the table of a [header].
func iniSection(root tree, line string, number int) (tree, path, error) {
	name, closed := strings.CutSuffix(line[1:], "]")
	if !closed || strings.Contains(name, "]") {
		return nil, nil, invalidLine(number, "a section is not closed by ] at the end of the line")
	}
	if strings.Count(name, ".")+2 > maxDepth {
		return nil, nil, invalidLine(number, "the section has more than %d levels", maxDepth)
	}
	section, names := root, strings.Split(name, ".")
	for i, part := range names {
		if part == "" {
			return nil, nil, invalidLine(number, "a section name has an empty part")
		}
		existing, taken := section[part]
		inner, ok := existing.(tree)
		if taken && !ok {
			return nil, nil, invalid(keys(names[:i+1]), "a section and a value have one name (line %d)", number)
		}
		if !taken {
			inner = tree{}
			section[part] = inner
		}
		section = inner
	}
	return section, keys(names), nil
}

// iniKey sets the value of a "key = value" line.
func iniKey(section tree, at path, line string, number int) error {
	key, text, ok := strings.Cut(line, "=")
	if !ok {
		return invalidLine(number, "a line is no section, comment or key with = and value")
	}
	key, text = trimBlanks(key), trimBlanks(text)
	if key == "" {
		return invalidLine(number, "a key is empty")
	}
	if _, taken := section[key]; taken {
		return invalid(at.key(key), "the key is there twice (line %d)", number)
	}
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		section[key] = text[1 : len(text)-1]
		return nil
	}
	section[key] = widen(text)
	return nil
}

// writeINI writes root values, then sections.
func writeINI(out *output, doc table) error {
	var found findings
	doc.walk(func(at path, value any) {
		if cause := iniFault(at[len(at)-1], value); cause != "" {
			found.add(cause, at)
		}
	})
	if err := found.refusal(v1alpha1.ReasonShapeInvalid, "an INI file cannot hold"); err != nil {
		return err
	}
	if err := collisions(doc, dotted, hasHeading, "two INI sections would have"); err != nil {
		return err
	}
	iniBody(out, doc, "")
	if len(out.buf) == 0 {
		out.add("\n")
	}
	return nil
}

// iniFault says why INI cannot hold a member, or nothing.
func iniFault(last step, value any) string {
	if last.position != isKey {
		return "" // inside an array, which is refused
	}
	switch v := value.(type) {
	case table:
		if last.key == "" || strings.ContainsAny(last.key, "]\r\n") || hasEmptySegment(last.key) {
			return "a section name with an empty part, ] or a line break"
		}
		return ""
	case array:
		return "an array"
	case float64:
		if !finite(v) {
			return nonFinite
		}
	case string:
		if cause := iniStringFault(v); cause != "" {
			return cause
		}
	}
	if iniKeyFault(last.key) {
		return "a key that is empty, has outer blanks, =, [, ] or a line break, or starts with ;, # or a byte order mark"
	}
	return ""
}

// iniKeyFault tells the keys that no line can hold. A byte order mark would be
// lost where it is the first character of the file.
func iniKeyFault(key string) bool {
	return strings.HasPrefix(key, "\uFEFF") || key == "" || trimBlanks(key) != key || strings.ContainsAny(key, "=[]\r\n") || key[0] == ';' || key[0] == '#'
}

func iniStringFault(text string) string {
	switch {
	case strings.ContainsAny(text, "\r\n\x00"):
		return "a string with a line break or NUL"
	case strings.HasSuffix(text, `\`):
		return "a string that ends in a backslash"
	case strings.Contains(text, `"`) && strings.ContainsAny(text, ";#"):
		return "a string with a double quote beside ; or #"
	default:
		return ""
	}
}

// hasEmptySegment tells whether a dotted name has an empty part.
func hasEmptySegment(name string) bool {
	return name == "" || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..")
}

// hasHeading tells the tables that get a header: those that are empty or have
// more than sub-tables.
func hasHeading(value any) bool {
	t, ok := value.(table)
	if !ok {
		return false
	}
	for _, m := range t {
		if _, ok := m.value.(table); !ok {
			return true
		}
	}
	return len(t) == 0
}

// iniBody writes the values of a table and then its sub-tables.
func iniBody(out *output, t table, prefix string) {
	for _, m := range t {
		if _, ok := m.value.(table); !ok && !out.full() {
			out.add(m.key, " = ", iniValue(m.value), "\n")
		}
	}
	for _, m := range t {
		sub, ok := m.value.(table)
		if !ok || out.full() {
			continue
		}
		if hasHeading(sub) {
			heading(out, "[", prefix+m.key, "]")
		}
		iniBody(out, sub, prefix+m.key+".")
	}
}

// iniValue wraps a string in quotes where a reader would change it.
func iniValue(value any) string {
	text, ok := value.(string)
	if !ok {
		return scalarText(value)
	}
	_, same := widen(text).(string)
	if !same || trimBlanks(text) != text || text == "" || strings.ContainsAny(text, ";#") ||
		text[0] == '"' || text[len(text)-1] == '"' {
		return `"` + text + `"`
	}
	return text
}
