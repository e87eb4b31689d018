package render

import (
	"strconv"
	"strings"
	"unicode/utf16"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// blanks are what java.util.Properties skips inside a line.
const blanks = " \t\f"

// readProperties reads as java.util.Properties does; then dots in keys nest.
func readProperties(text string) (table, error) {
	values := map[string]any{}
	for _, line := range logicalLines(text) {
		rawKey, rawValue := cutProperty(line.text)
		key, keyErr := unescapeProperty(rawKey)
		value, valueErr := unescapeProperty(rawValue)
		if keyErr != "" || valueErr != "" {
			return nil, invalidLine(line.number, "%s", max(keyErr, valueErr))
		}
		if _, taken := values[key]; taken {
			return nil, invalid(propertyPath(values, key), "the key is there twice (line %d)", line.number)
		}
		values[key] = widen(value)
	}
	root := tree{}
	for key, value := range values {
		at := propertyPath(values, key)
		if len(at) > maxDepth {
			return nil, tooDeep(at)
		}
		section := root
		for _, s := range at[:len(at)-1] {
			inner, ok := section[s.key].(tree)
			if !ok {
				inner = tree{}
				section[s.key] = inner
			}
			section = inner
		}
		section[at[len(at)-1].key] = value
	}
	return root.table(), nil
}

// propertyPath is where a dotted key goes. Nesting stops in front of the last
// segment of the shortest prefix that is a key itself; a key with an empty
// segment does not nest.
func propertyPath(values map[string]any, key string) path {
	if hasEmptySegment(key) {
		return path{}.key(key)
	}
	at, start := path{}, 0
	for len(at) <= maxDepth {
		end := strings.IndexByte(key[start:], '.')
		if end < 0 {
			break
		}
		end += start
		if _, taken := values[key[:end]]; taken {
			break
		}
		at, start = at.key(key[start:end]), end+1
	}
	return at.key(key[start:])
}

// logicalLine is a line with its continuations, and the number of its first one.
type logicalLine struct {
	number int
	text   string
}

// logicalLines joins continued lines and leaves out blank lines and comments.
func logicalLines(text string) []logicalLine {
	var found []logicalLine
	var parts []string
	first, continued := 0, false
	for number, line := range lines(text) {
		line = strings.TrimLeft(line, blanks)
		if len(parts) == 0 {
			if line == "" || line[0] == '#' || line[0] == '!' {
				continued = false
				continue
			}
			first = number
		}
		var body string
		body, continued = cutContinuation(line)
		if body != "" {
			parts = append(parts, body)
		}
		if !continued && len(parts) > 0 {
			found = append(found, logicalLine{first, strings.Join(parts, "")})
			parts = parts[:0]
		}
	}
	if continued { // a lone backslash at the end is an empty key in Java as well
		found = append(found, logicalLine{first, strings.Join(parts, "")})
	}
	return found
}

// cutContinuation removes the backslash that continues a line: the last of an
// odd number.
func cutContinuation(line string) (string, bool) {
	slashes := len(line) - len(strings.TrimRight(line, `\`))
	if slashes%2 == 0 {
		return line, false
	}
	return line[:len(line)-1], true
}

// cutProperty splits a line at the first =, : or blank that is not escaped.
func cutProperty(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=:"+blanks, rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = strings.TrimLeft(line[end:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return line[:end], value
}

// unescapeProperty resolves backslashes, or says what is wrong with them.
func unescapeProperty(text string) (value, fault string) {
	var out strings.Builder
	for {
		plain, rest, escaped := strings.Cut(text, `\`)
		out.WriteString(plain)
		if !escaped || rest == "" {
			return out.String(), ""
		}
		text = rest[1:]
		switch rest[0] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			r, size, fault := escapedRune(`\` + rest[:min(len(rest), 11)])
			if fault != "" {
				return "", fault
			}
			out.WriteRune(r)
			text = rest[size-1:]
		default:
			out.WriteByte(rest[0])
		}
	}
}

// escapedRune reads one or two \uXXXX escapes.
func escapedRune(text string) (r rune, size int, fault string) {
	unit, ok := escapedUnit(text)
	if !ok {
		return 0, 0, `\u is not followed by four hexadecimal digits`
	}
	if !utf16.IsSurrogate(unit) {
		return unit, 6, ""
	}
	low, _ := escapedUnit(text[6:])
	if r = utf16.DecodeRune(unit, low); r == '\uFFFD' {
		return 0, 0, "half of a surrogate pair is escaped"
	}
	return r, 12, ""
}

// writeProperties writes one line for each leaf.
func writeProperties(out *output, doc table) error {
	var found findings
	doc.walk(func(at path, value any) {
		if cause := propertyFault(at, value); cause != "" {
			found.add(cause, at)
		}
	})
	if err := found.refusal(v1alpha1.ReasonShapeInvalid, "a properties file cannot hold"); err != nil {
		return err
	}
	if err := collisions(doc, dotted, isLeaf, "two lines of a properties file would have"); err != nil {
		return err
	}
	dotted.each(doc, isLeaf, func(_ path, name string, value any) {
		out.buf = appendProperty(out.buf, name, true)
		out.add(" = ")
		out.buf = appendProperty(out.buf, scalarText(value), false)
		out.add("\n")
	})
	if len(out.buf) == 0 {
		out.add("\n")
	}
	return nil
}

// propertyFault says why a properties file cannot hold a leaf, or nothing.
func propertyFault(at path, value any) string {
	switch v := value.(type) {
	case table:
		return ""
	case array:
		return "an array"
	case float64:
		if !finite(v) {
			return nonFinite
		}
	}
	if len(at) == 1 && at[0].key == "" {
		return "an empty key"
	}
	return ""
}

// propertyEscapes are the escapes of more than one format character.
var propertyEscapes = map[rune]string{'\t': `\t`, '\n': `\n`, '\r': `\r`, '\f': `\f`}

// appendProperty appends a key, whose blanks are all escaped, or a value, whose
// first is.
func appendProperty(buf []byte, text string, key bool) []byte {
	for i, r := range text {
		switch short, ok := propertyEscapes[r]; {
		case ok:
			buf = append(buf, short...)
		case strings.ContainsRune(`\=:#!`, r) || r == ' ' && (key || i == 0):
			buf = append(buf, '\\', byte(r))
		case ' ' <= r && r <= '~':
			buf = append(buf, byte(r))
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				buf = append(buf, `\u`...)
				buf = append(buf, upperHex(rune(unit), 4)...)
			}
		}
	}
	return buf
}

// upperHex is a number in hexadecimal, padded with zeros.
func upperHex(r rune, width int) string {
	digits := strings.ToUpper(strconv.FormatInt(int64(r), 16))
	return strings.Repeat("0", max(width-len(digits), 0)) + digits
}
