package render

import (
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// readTOML reads TOML 1.0. The library parses the expressions; which of them may
// follow which is checked here, because the library's own check looks at every
// key for each new one.
func readTOML(text string) (table, error) {
	r := tomlReader{text: text, where: rootPath()}
	r.Reset([]byte(text))
	root := newTOMLTable(tomlHeader)
	current, depth := root, 1
	failed, err := guarded(func() error {
		for r.NextExpression() {
			var err error
			switch expression := r.Expression(); expression.Kind {
			case unstable.Table, unstable.ArrayTable:
				current, depth, err = r.header(root, expression)
			default:
				err = r.keyValue(current, expression, r.where, depth)
			}
			if err != nil {
				return err
			}
		}
		return r.fault()
	})
	if failed {
		return nil, refuse(v1alpha1.ReasonDocumentInvalid, notTOML)
	}
	if err != nil {
		return nil, err
	}
	return root.table(), nil
}

// tomlReader reads expressions into a tree.
type tomlReader struct {
	unstable.Parser
	text  string
	where path // the table of the last header
}

// tomlCauses are sentences of the library that hold no text of the document.
var tomlCauses = []string{
	"array is incomplete", "inline table is incomplete", "expected '=' after key", "strings must be quoted",
	"expected ',' or ']' after array value", "expected ',' or '}' after inline table key-value",
	"expected ']' to close table name", "expected ']]' to close array table name",
	"expected value, not end of input", "integers cannot have leading zeroes",
	"basic strings cannot have new lines", "literal strings cannot have new lines",
	"basic strings cannot have control characters", "literal strings cannot have control characters",
	"escape sequence is not a valid unicode code point", "unexpected comma in inline table",
}

const notTOML = "the text is not valid TOML"

// fault is nil, or keeps the place and a known cause of the library's error.
func (r *tomlReader) fault() error {
	var fault *unstable.ParserError
	switch err := r.Error(); {
	case err == nil:
		return nil
	case errors.As(err, &fault):
		offset := int(r.Range(fault.Highlight).Offset)
		return invalidByte(r.text, offset, "%s", knownCause(fault.Message, tomlCauses, notTOML))
	default:
		return refuse(v1alpha1.ReasonDocumentInvalid, notTOML)
	}
}

// refuse makes a refusal at a node and a path.
func (r *tomlReader) refuse(node *unstable.Node, at path, cause string) error {
	line, place := 1+strings.Count(r.text[:node.Raw.Offset], "\n"), at.String()
	return &Error{
		Reason:  v1alpha1.ReasonDocumentInvalid,
		Message: fmt.Sprintf("line %d: %s: %s", line, place, cause),
		Paths:   []string{place},
	}
}

// value makes a value of a node.
func (r *tomlReader) value(node *unstable.Node, at path, depth int) (any, error) {
	switch node.Kind {
	case unstable.String:
		if strings.HasPrefix(r.text[node.Raw.Offset:], `"`) && newEscape(string(r.Raw(node.Raw))) {
			return nil, r.refuse(node, at, "an escape that TOML 1.0 does not have")
		}
		return string(node.Data), nil
	case unstable.Bool:
		return string(node.Data) == "true", nil
	case unstable.Array:
		return r.array(node, at, depth+1)
	case unstable.InlineTable:
		return r.inlineTable(node, at, depth+1)
	default:
		return r.scalar(node, at)
	}
}

// newEscape finds the escapes of TOML 1.1 in a basic string: \e and \xHH.
func newEscape(raw string) bool {
	for {
		_, rest, ok := strings.Cut(raw, `\`)
		if !ok || rest == "" {
			return false
		}
		if rest[0] == 'e' || rest[0] == 'x' {
			return true
		}
		raw = rest[1:]
	}
}

// scalar makes a value of a number, a date or a time. All but plain numbers are
// read by the library; dates and times become RFC 3339 text.
func (r *tomlReader) scalar(node *unstable.Node, at path) (any, error) {
	raw := string(node.Data)
	if len(raw) <= 18 && decimal(raw) {
		return integer(raw), nil
	}
	var read struct{ V any }
	if err := toml.Unmarshal([]byte("V="+raw), &read); err != nil || shortTime(node.Kind, raw) {
		return nil, r.refuse(node, at, "the number, date or time is not one of TOML 1.0, or out of range")
	}
	switch v := read.V.(type) {
	case int64:
		return integer(strconv.FormatInt(v, 10)), nil
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return nil, r.refuse(node, at, "the date or time is out of range")
		}
		return string(text), nil
	default:
		return v, nil
	}
}

// shortTime finds the times without seconds of TOML 1.1.
func shortTime(kind unstable.Kind, raw string) bool {
	switch kind {
	case unstable.LocalDateTime, unstable.DateTime:
		raw = raw[min(len(raw), len("2006-01-02T")):]
	case unstable.LocalTime:
	default:
		return false
	}
	return len(raw) < len("15:04:05") || raw[5] != ':'
}

func (r *tomlReader) array(node *unstable.Node, at path, depth int) (any, error) {
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	items := array{}
	for child := node.Child(); child.Valid(); child = child.Next() {
		value, err := r.value(child, at.index(len(items)), depth)
		if err != nil {
			return nil, err
		}
		items = append(items, value)
	}
	return items, nil
}

// inlineTable reads a table in braces; TOML 1.0 wants it on one line and without
// a comma at its end.
func (r *tomlReader) inlineTable(node *unstable.Node, at path, depth int) (any, error) {
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	inline := newTOMLTable(tomlDotted)
	end, broken := int(node.Raw.Offset)+1, false
	for child := node.Child(); child.Valid(); child = child.Next() {
		broken = broken || strings.ContainsAny(r.text[end:child.Raw.Offset], "\r\n")
		if err := r.keyValue(inline, child, at, depth); err != nil {
			return nil, err
		}
		end = int(child.Raw.Offset + child.Raw.Length)
	}
	rest := strings.TrimLeft(r.text[end:], " \t")
	if broken || !strings.HasPrefix(rest, "}") {
		return nil, r.refuse(node, at, "an inline table of TOML 1.0 is one line, without a comma at its end")
	}
	return inline.table(), nil
}
