package render_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

// canary is part of every string value that secrets draws.
const canary = "s3cr3t"

// awkward are strings that some reader takes for something else.
var awkward = []string{
	"", " ", "  x", "x ", "\t", "yes", "NO", "on", "Off", "y", "N", "~", "null", "Null", "true", "FALSE", "<<", "=", "-", "--- a", "...",
	"0", "-0", "007", "+1", "1_000", "1e3", "1.10", ".5", "5.", "0x1F", "0o17", "0b11", "12:30:45", "2001-01-01", "2001-01-01T00:00:00Z",
	".inf", "-.INF", ".nan", "inf", "NaN", "1e400", "685e523", "[x]", "{x}", "a: b", "a:", ":a", "a #b", "#a", "; a", "a;b", "!a", "&a", "*a",
	"@a", "`a", "%a", "|", ">", "? a", "- a", "'", "''", "\"", "\"a\"", "a\"", "\\", "C:\\x", "a\\", "a=b", "=a", "a\nb", "\n", "a\r\nb", "\r",
	"\x00", "\x07", "\x1b", "\x1c", "\x7f", "\u0085", "\u00a0x", "\u2028", "\u2029", "\ufeff", "\ufffd", "\ufffe", "\U0001F389", "na\u00efve",
	"http://h:80/p?a=b", "30s", "10.0.0.1", "1.2.3", "1:2", "0.", "e1", "1e", "_", "__proto__", "$schema", strings.Repeat("k", 1200),
}

// holds says what documents a format can hold.
type holds struct {
	null, arrays, emptyTables bool
	integer                   *rapid.Generator[string]
	key, text                 func(string) bool
}

func anything(string) bool { return true }

var (
	anyInteger  = rapid.StringMatching(`-?[1-9][0-9]{0,40}|0`)
	longInteger = rapid.Map(rapid.Int64(), func(i int64) string { return strconv.FormatInt(i, 10) })

	holdsAll  = holds{null: true, arrays: true, emptyTables: true, integer: anyInteger, key: anything, text: anything}
	holdsLong = holds{null: true, arrays: true, emptyTables: true, integer: longInteger, key: anything, text: anything}
	holdsTOML = holds{arrays: true, emptyTables: true, integer: longInteger, key: anything, text: anything}
	holdsINI  = holds{
		emptyTables: true, integer: anyInteger,
		key: func(s string) bool {
			return s != "" && strings.TrimSpace(s) == s && !strings.ContainsAny(s, "=[].\r\n\x1c\x1d\x1e\x1f") && !strings.ContainsAny(s[:1], ";#") && !strings.HasPrefix(s, "\uFEFF")
		},
		text: func(s string) bool {
			quoteAndComment := strings.Contains(s, `"`) && strings.ContainsAny(s, ";#")
			return !strings.ContainsAny(s, "\r\n\x00") && !strings.HasSuffix(s, `\`) && !quoteAndComment
		},
	}
	holdsProperties = holds{
		integer: anyInteger,
		key:     func(s string) bool { return s != "" && !strings.Contains(s, ".") },
		text:    func(s string) bool { return !looksTyped(s) },
	}
)

// looksTyped tells whether the properties reader would make another type of a
// string: properties have no quotes.
func looksTyped(s string) bool {
	data, err := render.Render(
		render.Document{Format: v1alpha1.FormatINI, Text: []byte("v = " + s)}, render.Target{File: "x.json"})
	return err == nil && !strings.HasPrefix(string(data["x.json"]), "{\n  \"v\": \"")
}

func stringsOf(allowed func(string) bool) *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z][a-z0-9_-]{0,8}`), rapid.SampledFrom(awkward), rapid.String(),
		rapid.StringOfN(rapid.SampledFrom([]rune(" \t\n\"'\\:;#=![]{}-,&*?|>%@`~0e.y")), 0, 6, -1),
	).Filter(allowed)
}

// value draws null, a scalar, an array or a table; tables become map[string]any,
// numbers json.Number.
func (h holds) value(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(h.integer, func(i string) any { return json.Number(i) }),
		rapid.Map(rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }), floatNumber),
		rapid.Map(stringsOf(h.text), func(s string) any { return s }),
	}
	if h.null {
		kinds = append(kinds, rapid.Just[any](nil))
	}
	if depth > 0 && h.arrays {
		kinds = append(kinds, rapid.Map(rapid.SliceOfN(h.value(depth-1), 0, 4), func(a []any) any { return a }))
	}
	if depth > 0 {
		kinds = append(kinds, rapid.Map(h.table(depth-1, 0), func(t map[string]any) any { return t }))
	}
	return rapid.OneOf(kinds...)
}

func (h holds) table(depth, least int) *rapid.Generator[map[string]any] {
	if !h.emptyTables {
		least = 1
	}
	return rapid.MapOfN(stringsOf(h.key), h.value(depth), least, 5)
}

// document draws a document as JSON text; "$schema" at the root would be dropped.
func (h holds) document() *rapid.Generator[string] {
	return rapid.Map(h.table(3, 0), func(t map[string]any) string {
		delete(t, "$schema")
		text, err := json.Marshal(t)
		if err != nil {
			panic(err)
		}
		return string(text)
	})
}

func floatNumber(f float64) any {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.Number(text)
}

// convert renders text of one format as a file of another.
func convert(t fataler, text, from, to string) string {
	t.Helper()
	file := "x." + to
	data, err := render.Render(render.Document{Format: v1alpha1.Format(from), Text: []byte(text)}, render.Target{File: file})
	if err != nil {
		t.Fatalf("%s to %s: %v\n%.2000s", from, to, err, text)
	}
	return string(data[file])
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// examples are always the same documents, for the readers that are too slow to
// start once for each.
func (h holds) examples(tb testing.TB, count int) []string {
	tb.Helper()
	texts := make([]string, count)
	for i := range texts {
		texts[i] = h.document().Example(i)
	}
	return texts
}

// flatten lists the leaves of JSON text as dotted names and the text an entry
// would have.
func flatten(prefix string, data any, into map[string]string) {
	switch v := data.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(prefix+"."+key, value, into)
		}
	case nil:
		into[prefix[1:]] = ""
	default:
		into[prefix[1:]] = fmt.Sprint(v)
	}
}
