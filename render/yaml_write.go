package render

import (
	"math"
	"strings"
	"unicode"
)

// writeYAML writes block style.
func writeYAML(out *output, doc table) error {
	if len(doc) == 0 {
		out.add("{}\n")
		return nil
	}
	yamlTable(out, doc, "")
	return nil
}

// yamlTable writes the members of a table that is not empty; the caller has
// written the first line's indentation.
func yamlTable(out *output, t table, indent string) {
	for i, m := range t {
		if out.full() {
			return
		}
		if i > 0 {
			out.add(indent)
		}
		key := yamlString(m.key)
		if len(key) > longestSimpleKey {
			out.add("? ", key, "\n", indent, ":")
		} else {
			out.add(key, ":")
		}
		yamlMember(out, m.value, indent+"  ")
	}
}

// longestSimpleKey keeps keys under the 1,024 characters that YAML allows in
// front of a colon.
const longestSimpleKey = 1000

// yamlMember writes the value of a key: a collection goes on lines of its own.
func yamlMember(out *output, value any, indent string) {
	switch v := value.(type) {
	case table:
		if len(v) > 0 {
			out.add("\n", indent)
			yamlTable(out, v, indent)
			return
		}
	case array:
		if len(v) > 0 {
			out.add("\n", indent)
			yamlArray(out, v, indent)
			return
		}
	}
	out.add(" ", yamlScalarText(value), "\n")
}

// yamlArray writes the items of an array that is not empty; an item that is a
// collection starts on the line of its dash.
func yamlArray(out *output, items array, indent string) {
	for i, item := range items {
		if out.full() {
			return
		}
		if i > 0 {
			out.add(indent)
		}
		out.add("- ")
		switch v := item.(type) {
		case table:
			if len(v) > 0 {
				yamlTable(out, v, indent+"  ")
				continue
			}
		case array:
			if len(v) > 0 {
				yamlArray(out, v, indent+"  ")
				continue
			}
		}
		out.add(yamlScalarText(item), "\n")
	}
}

// yamlScalarText is the text of a scalar or of an empty collection.
func yamlScalarText(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case table:
		return "{}"
	case array:
		return "[]"
	case string:
		return yamlString(v)
	case float64:
		return yamlFloatText(v)
	default:
		return scalarText(value)
	}
}

// yamlFloatText gives an exponent a dot and a sign: YAML 1.1 readers take 1e16
// for a string.
func yamlFloatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return ".nan"
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	}
	mantissa, exponent, ok := strings.Cut(formatFloat(f), "e")
	if !ok {
		return mantissa
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if exponent[0] != '-' {
		exponent = "+" + exponent
	}
	return mantissa + "e" + exponent
}

// yamlString writes a string in the plainest form that YAML 1.1 and 1.2 readers
// both read back unchanged.
func yamlString(text string) string {
	if isPlain(text) {
		return text
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return !yamlPrintable(r) }) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	var quoted strings.Builder
	quoted.WriteByte('"')
	for _, r := range text {
		quoted.WriteString(yamlEscape(r))
	}
	quoted.WriteByte('"')
	return quoted.String()
}

// otherWords are what a YAML 1.1 or 1.2 reader takes for a bool or null, in
// lower case.
var otherWords = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true,
	"true": true, "false": true, "null": true,
}

// isPlain allows a plain scalar: words, host names, paths, durations. It stays
// far inside what YAML allows.
func isPlain(text string) bool {
	if text == "" || len(text) <= len("false") && otherWords[strings.ToLower(text)] {
		return false
	}
	if strings.Contains(text, ": ") || strings.HasSuffix(text, ":") || strings.HasSuffix(text, " ") {
		return false
	}
	return startsPlain(text) && strings.IndexFunc(text, notPlain) < 0
}

// startsPlain allows a first character that no indicator and no number has.
func startsPlain(text string) bool {
	first := rune(text[0])
	return isLetter(first) || first == '/' || first == '_' || isDigit(first) && noNumber(text)
}

// notPlain finds a character that a plain scalar may not hold.
func notPlain(r rune) bool {
	wide := r > unicode.MaxLatin1 && unicode.IsLetter(r)
	return !wide && !isWord(r) && !strings.ContainsRune(" ./:@+=(),$%;~", r)
}

// noNumber finds a letter that neither numbers nor timestamps have.
func noNumber(text string) bool { return strings.ContainsAny(text, "ghijklmpqrsuvwyGHIJKLMPQRSUVWY") }

// yamlPrintable tells what a quoted scalar may hold as it is in every reader;
// line breaks are not among it.
func yamlPrintable(r rune) bool {
	switch {
	case r < ' ', r == 0x2028, r == 0x2029, r == 0xFEFF:
		return false
	default:
		return r <= '~' || 0xA0 <= r && r <= 0xFFFD || r >= 0x10000
	}
}

func yamlEscape(r rune) string {
	switch {
	case r == '"' || r == '\\':
		return `\` + string(r)
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case yamlPrintable(r):
		return string(r)
	case r < 0x100:
		return `\x` + upperHex(r, 2)
	default:
		return `\u` + upperHex(r, 4)
	}
}
