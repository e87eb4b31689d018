package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

func TestRender_ReadsBackWhatItWrote(t *testing.T) {
	for format, held := range map[string]holds{
		"json": holdsAll, "yaml": holdsAll, "toml": holdsTOML, "ini": holdsINI, "properties": holdsProperties,
	} {
		t.Run(format, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := held.document().Draw(t, "document")
				want := convert(t, text, "json", "json")
				written := convert(t, text, "json", format)
				if got := convert(t, written, format, "json"); got != want {
					t.Fatalf("-want +got:\n%s\nwritten:\n%s", cmp.Diff(want, got), written)
				}
				if again := convert(t, written, format, format); again != written {
					t.Fatalf("-first +second:\n%s", cmp.Diff(written, again))
				}
			})
		})
	}
}

func TestRender_FilesAreWhatOtherReadersRead(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		held   holds
		read   reader
		unfit  func(text string) bool // what the judge itself cannot read
	}{
		"a YAML 1.2 reader":    {"yaml", holdsLong, yaml12Judge, nil},
		"a YAML 1.1 reader":    {"yaml", holdsLong, yaml11Judge, nil},
		"a TOML reader":        {"toml", holdsTOML, tomlJudge, mixedArrays},
		"an INI reader":        {"ini", holdsINI, iniJudge, nil},
		"a properties reader":  {"properties", holdsProperties, propertiesJudge, astral},
		"a JSON reader of std": {"json", holdsAll, jsonJudge, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := c.held.document().Filter(func(text string) bool { return c.unfit == nil || !c.unfit(text) }).Draw(t, "document")
				written := convert(t, text, "json", c.format)
				got, err := c.read(written)
				if err != nil {
					t.Fatalf("%v\n%s", err, written)
				}
				if diff := cmp.Diff(wanted(t, c.format, text), got, sameFloats); diff != "" {
					t.Fatalf("-want +got:\n%s\n%q", diff, written)
				}
			})
		})
	}
}

// wanted is what a reader of the format has to see of a document: data, or for
// the flat formats the text of each leaf.
func wanted(t fataler, format, text string) any {
	t.Helper()
	data, err := jsonJudge(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if format != "ini" && format != "properties" {
		return data
	}
	leaves := map[string]string{}
	var canonical any
	decoder := json.NewDecoder(strings.NewReader(convert(t, text, "json", "json")))
	decoder.UseNumber()
	if err := decoder.Decode(&canonical); err != nil {
		t.Fatalf("%v", err)
	}
	flatten("", canonical, leaves)
	return leaves
}

func TestRender_SameBytesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := holdsAll.table(2, 1).Draw(t, "table")
		seed := rapid.Uint64().Draw(t, "seed")
		for _, to := range []string{"json", "yaml"} {
			one := convert(t, shuffled(table, seed), "json", to)
			if two := convert(t, shuffled(table, seed+1), "json", to); one != two {
				t.Fatalf("-one +two:\n%s", cmp.Diff(one, two))
			}
		}
	})
}

// shuffled writes the members of a table in an order of chance.
func shuffled(table map[string]any, seed uint64) string {
	keys := slices.Sorted(maps.Keys(table))
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var members []string
	for _, key := range keys {
		name, _ := json.Marshal(key)
		value, _ := json.Marshal(table[key])
		members = append(members, string(name)+":"+string(value))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestRender_NoLeafIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := holdsAll.table(3, 0).Draw(t, "table")
		delete(table, "$schema")
		text, _ := json.Marshal(table)
		for _, shape := range []v1alpha1.Shape{v1alpha1.ShapeEntries, v1alpha1.ShapeEnvEntries} {
			data, err := render.Render(
				render.Document{Format: v1alpha1.FormatJSON, Text: text}, render.Target{Shape: shape})
			if err == nil && len(data) != countLeaves(table) {
				t.Fatalf("%d entries for %d leaves", len(data), countLeaves(table))
			}
		}
	})
}

func countLeaves(value any) int {
	table, ok := value.(map[string]any)
	if !ok {
		return 1
	}
	count := 0
	for _, inner := range table {
		count += countLeaves(inner)
	}
	return count
}

// secrets draws documents whose every string value holds the canary.
var secrets = rapid.Map(holdsAll.table(3, 1), func(t map[string]any) string {
	text, _ := json.Marshal(planted(t))
	return string(text)
})

func planted(value any) any {
	switch v := value.(type) {
	case string:
		return canary + v
	case []any:
		for i := range v {
			v[i] = planted(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = planted(v[key])
		}
	}
	return value
}

func TestRender_RefusalsNamePathsAndNoValue(t *testing.T) {
	targets := []render.Target{{Shape: v1alpha1.ShapeEntries}, {Shape: v1alpha1.ShapeEnvEntries}}
	for _, extension := range []string{"json", "yaml", "toml", "ini", "properties"} {
		targets = append(targets, render.Target{File: "x." + extension})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := secrets.Draw(t, "document")
		for _, target := range targets {
			_, err := render.Render(render.Document{Format: v1alpha1.FormatJSON, Text: []byte(text)}, target)
			checkRefusal(t, err, true)
		}
		for _, format := range []v1alpha1.Format{"json", "yaml", "toml", "ini", "properties"} {
			cut := text[:rapid.IntRange(0, len(text)).Draw(t, "cut")] + canary
			_, err := render.Render(render.Document{Format: format, Text: []byte(cut)}, render.Target{File: "x.json"})
			checkRefusal(t, err, false)
		}
	})
}

// checkRefusal checks that an error is a refusal without the canary, with a path
// in its message where it is about places.
func checkRefusal(t fataler, err error, needsPath bool) {
	t.Helper()
	if err == nil {
		return
	}
	var refusal *render.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("no refusal: %v", err)
	}
	if strings.Contains(fmt.Sprint(refusal.Message, refusal.Paths), canary) {
		t.Fatalf("a value shows: %v", err)
	}
	if needsPath && len(refusal.Paths) == 0 {
		t.Fatalf("no path: %v", err)
	}
	for _, path := range refusal.Paths[:min(len(refusal.Paths), 1)] {
		if !strings.Contains(refusal.Message, path) {
			t.Fatalf("%q is not in %v", path, err)
		}
	}
}
