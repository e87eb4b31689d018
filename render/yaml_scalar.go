package render

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// The scalars of the YAML 1.2 core schema. Leading zeros are left out of the
// integers: YAML 1.1 reads 017 as 15 and 1.2 as 17, so that it stays a string.
var (
	yamlWords = map[string]any{
		"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
		"true": true, "True": true, "TRUE": true, "false": false, "False": false, "FALSE": false,
		".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
		".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1),
		"+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
		"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
	}
	yamlBased = regexp.MustCompile(`^(0x[0-9a-fA-F]+|0o[0-7]+)$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// scalar makes a value of a scalar node.
func (r *yamlReader) scalar(node *yaml.Node, at path) (any, error) {
	tagged := node.Style&yaml.TaggedStyle != 0
	if node.Style&^yaml.TaggedStyle != 0 && !tagged || tagged && node.Tag == "!!str" || !tagged && r.bareTags[position{node.Line, node.Column}] {
		return node.Value, nil
	}
	value, err := plainScalar(node.Value, at)
	if err != nil || !tagged {
		return value, err
	}
	return retagged(value, node, at)
}

// position is a line and a column of a text, in characters from 1.
type position struct{ line, column int }

var yamlBareTag = regexp.MustCompile(`(&\S+[ \t]+)?!([ \t\r]|$)`)

// bareTags finds where a node may have the tag "!", which makes it a string. The
// library drops that one, so that the text has to tell.
func bareTags(text string) map[position]bool {
	found := map[position]bool{}
	line := 0
	for each := range strings.SplitSeq(text, "\n") {
		line++
		if !strings.Contains(each, "!") {
			continue
		}
		column, counted := 1, 0
		for _, match := range yamlBareTag.FindAllStringIndex(each, -1) {
			column += utf8.RuneCountInString(each[counted:match[0]])
			counted = match[0]
			found[position{line, column}] = true
		}
	}
	return found
}

// retagged checks that a plain value is what its tag says; an integer may serve
// as a float.
func retagged(value any, node *yaml.Node, at path) (any, error) {
	var fits bool
	switch node.Tag {
	case "!!null":
		fits = value == nil
	case "!!bool":
		_, fits = value.(bool)
	case "!!int":
		_, fits = value.(integer)
	case "!!float":
		if whole, ok := value.(integer); ok {
			return number(string(whole)+".0", at)
		}
		_, fits = value.(float64)
	default:
		return nil, unknownTag(at, node)
	}
	if !fits {
		return nil, invalid(at, "the value does not fit its YAML tag (line %d)", node.Line)
	}
	return value, nil
}

// plainScalar resolves an untagged scalar without quotes.
func plainScalar(text string, at path) (any, error) {
	if value, ok := yamlWords[text]; ok {
		return value, nil
	}
	if !strings.ContainsRune("+-.0123456789", rune(text[0])) {
		return text, nil
	}
	unsigned := text
	if text[0] == '+' || text[0] == '-' {
		unsigned = text[1:]
	}
	switch {
	case decimal(unsigned):
		return number(strings.TrimPrefix(text, "+"), at)
	case allDigits(unsigned):
		return text, nil
	case yamlBased.MatchString(text):
		return basedInteger(text, at)
	case yamlFloat.MatchString(text):
		return number(text, at)
	default:
		return text, nil
	}
}

// basedInteger converts 0x and 0o integers. Those whose decimal text no target
// can hold are refused, because converting them takes more than linear time.
func basedInteger(text string, at path) (any, error) {
	if len(text) > maxRendered {
		return nil, refuseAt(v1alpha1.ReasonDocumentTooLarge, at,
			"the integer has %d digits, %d bytes are allowed in all", len(text)-2, maxRendered)
	}
	n, _ := new(big.Int).SetString(text, 0)
	return integer(n.String()), nil
}
