package render

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// readJSON reads RFC 8259. The library has checked all of the text before the
// tokens are read, so that they cannot fail.
func readJSON(text string) (table, error) {
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		return nil, jsonFault(text, err)
	}
	if at := loneSurrogate(text); at >= 0 {
		return nil, invalidByte(text, at, "half of a surrogate pair is escaped")
	}
	r := jsonReader{json.NewDecoder(strings.NewReader(text))}
	r.UseNumber()
	if r.next() != json.Delim('{') {
		return nil, notTable()
	}
	return r.table(rootPath(), 1)
}

func jsonFault(text string, err error) error {
	var fault *json.SyntaxError
	if !errors.As(err, &fault) {
		return invalidLine(1, "the text is not valid JSON")
	}
	const early = "unexpected end of JSON input"
	cause := knownCause(fault.Error(), []string{early}, "the character is not valid JSON here")
	if cause == early {
		return invalidByte(text, len(strings.TrimRight(text, " \t\r\n")), "%s", cause)
	}
	// The offset counts the bytes read, the one that was wrong included.
	return invalidByte(text, int(fault.Offset)-1, "%s", cause)
}

// loneSurrogate is the offset of a \uD800-\uDFFF escape without its other half,
// or -1: the library would read it as U+FFFD. In valid JSON a backslash only
// starts an escape in a string.
func loneSurrogate(text string) int {
	for i := 0; ; {
		next := strings.IndexByte(text[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		unit, ok := escapedUnit(text[i:])
		switch {
		case !ok:
			i += 2
		case !utf16.IsSurrogate(unit):
			i += 6
		default:
			low, _ := escapedUnit(text[i+6:])
			if utf16.DecodeRune(unit, low) == '\uFFFD' {
				return i
			}
			i += 12
		}
	}
}

// escapedUnit reads the UTF-16 unit of a \uXXXX escape that text starts with.
func escapedUnit(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), err == nil
}

// jsonReader reads the tokens of text that is known to be valid.
type jsonReader struct{ *json.Decoder }

func (r jsonReader) next() json.Token {
	token, _ := r.Token()
	return token
}

func (r jsonReader) table(at path, depth int) (table, error) {
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	var members []member
	for {
		key, ok := r.next().(string)
		if !ok {
			return newTable(members, at)
		}
		value, err := r.value(r.next(), at.key(key), depth)
		if err != nil {
			return nil, err
		}
		members = append(members, member{key, value})
	}
}

func (r jsonReader) array(at path, depth int) (any, error) {
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	items := array{}
	for {
		token := r.next()
		if token == json.Delim(']') {
			return items, nil
		}
		value, err := r.value(token, at.index(len(items)), depth)
		if err != nil {
			return nil, err
		}
		items = append(items, value)
	}
}

func (r jsonReader) value(token json.Token, at path, depth int) (any, error) {
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return r.table(at, depth+1)
		}
		return r.array(at, depth+1)
	case json.Number:
		return number(string(v), at)
	default:
		return token, nil
	}
}

// number makes a value of a JSON number, or of a YAML one without plus sign.
func number(text string, at path) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return integer("0"), nil
		}
		return integer(text), nil
	}
	f, _ := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) {
		return nil, invalid(at, "the number is too large for a float")
	}
	return f, nil
}

// writeJSON writes indented JSON.
func writeJSON(out *output, doc table) error {
	if err := refuseNonFinite(doc, "a JSON file"); err != nil {
		return err
	}
	out.buf = appendJSON(out.buf, doc, "\n")
	out.add("\n")
	return nil
}

// refuseNonFinite refuses infinite and not-a-number floats.
func refuseNonFinite(doc table, what string) error {
	var found findings
	doc.walk(func(at path, value any) {
		if f, ok := value.(float64); ok && !finite(f) {
			found.add(nonFinite, at)
		}
	})
	return found.refusal(v1alpha1.ReasonShapeInvalid, what+" cannot hold")
}

const nonFinite = "an infinite or not-a-number float"

// appendJSON appends a value. A line break with its indentation goes between the
// items, or nothing where indent is empty: then the JSON is compact. It stops
// early where the output is full.
func appendJSON(buf []byte, value any, indent string) []byte {
	switch v := value.(type) {
	case nil:
		return append(buf, "null"...)
	case string:
		return appendQuoted(buf, v)
	case table:
		return appendItems(buf, '{', '}', len(v), indent, func(buf []byte, i int, inner string) []byte {
			buf = append(appendQuoted(buf, v[i].key), ':')
			if inner != "" {
				buf = append(buf, ' ')
			}
			return appendJSON(buf, v[i].value, inner)
		})
	case array:
		return appendItems(buf, '[', ']', len(v), indent, func(buf []byte, i int, inner string) []byte {
			return appendJSON(buf, v[i], inner)
		})
	default:
		return append(buf, scalarText(value)...)
	}
}

func appendItems(buf []byte, open, end byte, count int, indent string, item func([]byte, int, string) []byte) []byte {
	if count == 0 {
		return append(buf, open, end)
	}
	inner := indent
	if indent != "" {
		inner += "  "
	}
	for i := range count {
		if len(buf) > outputStop {
			return buf
		}
		if i == 0 {
			buf = append(buf, open)
		} else {
			buf = append(buf, ',')
		}
		buf = item(append(buf, inner...), i, inner)
	}
	return append(append(buf, indent...), end)
}

// jsonEscapes are the short forms among the escapes.
var jsonEscapes = map[byte]string{
	'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`,
}

// appendQuoted appends a JSON string: only the quote, the backslash and U+0000 to
// U+001F are escaped.
func appendQuoted(buf []byte, text string) []byte {
	buf = append(buf, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		buf = append(buf, text[start:i]...)
		start = i + 1
		if short, ok := jsonEscapes[c]; ok {
			buf = append(buf, short...)
		} else {
			buf = append(buf, `\u00`...)
			buf = append(buf, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	return append(append(buf, text[start:]...), '"')
}
