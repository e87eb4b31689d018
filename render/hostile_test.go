package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

// numbered repeats a format with a number in it.
func numbered(format string, count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// TestRender_Hostile renders what was made to eat time or memory, to every
// target. Each must end in a refusal or a small result; a quadratic step would
// not end within the test's limit.
func TestRender_Hostile(t *testing.T) {
	longKey := strings.Repeat("k", 2<<20)
	for name, c := range map[string]struct {
		format v1alpha1.Format
		text   string
	}{
		"a long key over many tables":        {"json", `{"` + longKey + `":{` + numbered(`"a%d":{"x":1},`, 15000) + `"z":1}}`},
		"a long key over many lists":         {"json", `{"` + longKey + `":{` + numbered(`"a%d":[{"x":1}],`, 15000) + `"z":1}}`},
		"long keys inside each other":        {"json", strings.Repeat(`{"`+strings.Repeat("k", 15000)+`":`, 120) + `{"x":{},"y":1}` + strings.Repeat("}", 120)},
		"many items far below":               {"json", strings.Repeat(`{"a":[`, 63) + strings.Repeat("1,", 1<<18) + "1" + strings.Repeat("]}", 63)},
		"floats that are long in TOML":       {"json", `{"a":[` + strings.Repeat("1e308,", 100000) + "1]}"},
		"inline tables that are long":        {"json", `{"a":[0,{"b":[` + strings.Repeat(`{"x":1e308},`, 60000) + "1]}]}"},
		"many keys that collide":             {"json", `{` + numbered(`"a.%[1]d":1,"a_%[1]d":1,`, 20000) + `"z":1}`},
		"many nulls and bad names":           {"json", `{` + numbered(`"a %d":null,`, 40000) + `"z":1}`},
		"JSON lists without end":             {"json", `{"a":` + strings.Repeat("[", 4<<20-10)},
		"JSON lists inside each other":       {"json", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}"},
		"YAML lists without end":             {"yaml", "a: " + strings.Repeat("[", 4<<20-10)},
		"YAML lists inside each other":       {"yaml", "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		"YAML aliases of nothing":            {"yaml", "a: &a []\n" + numberedAliases(30)},
		"YAML aliases of merged tables":      {"yaml", "a0: &a0 {x: 1}\n" + numberedMerges(20000)},
		"many merged tables":                 {"yaml", "a: {<<: [" + numbered("{k%d: 1},", 30000) + "]}"},
		"merges inside each other":           {"yaml", "a: " + strings.Repeat("{<<: ", 3000) + "{}" + strings.Repeat("}", 3000)},
		"a YAML alias inside itself, twice":  {"yaml", "a: &a [*a, *a]"},
		"an integer of a million hex digits": {"yaml", "a: 0x" + strings.Repeat("f", 300000)},
		"an integer of four million digits":  {"yaml", "a: 0x" + strings.Repeat("f", 4<<20-10)},
		"a float of four million digits":     {"yaml", "a: 1." + strings.Repeat("9", 4<<20-10)},
		"TOML lists without end":             {"toml", "a = " + strings.Repeat("[", 4<<20-10)},
		"TOML lists inside each other":       {"toml", "a = " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		"TOML inline tables":                 {"toml", "a = " + strings.Repeat("{a = ", 5000) + "1" + strings.Repeat("}", 5000)},
		"a TOML key of a million parts":      {"toml", strings.Repeat("a.", 1<<20) + "a = 1"},
		"a TOML header of a million parts":   {"toml", "[" + strings.Repeat("a.", 1<<20) + "a]"},
		"deep TOML lists of tables":          {"toml", numberedTables(100)},
		"many TOML keys":                     {"toml", numbered("key%d = 1\n", 200000)},
		"many TOML tables":                   {"toml", numbered("[[a]]\nb.c%d = 1\n", 40000)},
		"many TOML inline tables":            {"toml", "a = [" + strings.Repeat("{b = 1}, ", 60000) + "]"},
		"a wide TOML inline table":           {"toml", "a = {" + numbered("k%d = 1, ", 100000) + "z = 1}"},
		"an INI section of a million parts":  {"ini", "[" + strings.Repeat("a.", 1<<20) + "a]\nb = 1"},
		"many INI sections":                  {"ini", numbered("[a.b%d]\nc = 1\n", 40000)},
		"a properties key of many parts":     {"properties", strings.Repeat("a.", 1<<20) + "a = 1"},
		"properties keys that are prefixes":  {"properties", numberedPrefixes(2500)},
		"a line that never ends":             {"properties", "a = " + strings.Repeat("x\\\n", 1<<20)},
		"escapes without end":                {"properties", "a = " + strings.Repeat(`\u00e9`, 600000)},
	} {
		t.Run(name, func(t *testing.T) {
			extensions := []string{"json"}
			if c.format == "json" { // the others are hard to read, these hard to write
				extensions = []string{"json", "yaml", "toml", "ini", "properties"}
			}
			targets := []render.Target{{Shape: v1alpha1.ShapeEntries}, {Shape: v1alpha1.ShapeEnvEntries}}
			for _, extension := range extensions {
				targets = append(targets, render.Target{File: "x." + extension})
			}
			for _, target := range targets {
				_, err := render.Render(render.Document{Format: c.format, Text: []byte(c.text)}, target)
				var refusal *render.Error
				if err != nil && (!errors.As(err, &refusal) || len(refusal.Message) > 32<<10) {
					t.Fatalf("%+v: message of %d bytes", target, len(err.Error()))
				}
			}
		})
	}
}

// numberedAliases makes each line a list of ten of the line before.
func numberedAliases(count int) string {
	text, last := strings.Builder{}, "a"
	for i := range count {
		name := fmt.Sprintf("b%d", i)
		fmt.Fprintf(&text, "%s: &%s [%s*%s]\n", name, name, strings.Repeat("*"+last+", ", 9), last)
		last = name
	}
	return text.String()
}

// numberedMerges makes each table a merge of the one before.
func numberedMerges(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "a%d: &a%d {<<: *a%d, k%d: 1}\n", i+1, i+1, i, i)
	}
	return text.String()
}

// numberedTables makes arrays of tables inside each other.
func numberedTables(count int) string {
	text, name := strings.Builder{}, "a"
	for range count {
		text.WriteString("[[" + name + "]]\n")
		name += ".a"
	}
	return text.String()
}

// numberedPrefixes makes keys of which each is a prefix of the next.
func numberedPrefixes(count int) string {
	text, name := strings.Builder{}, "a"
	for range count {
		if text.Len()+len(name) > 4<<20-10 {
			break
		}
		text.WriteString(name + " = 1\n")
		name += ".a"
	}
	return text.String()
}
