package render_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

func FuzzJSON(f *testing.F)       { fuzzReader(f, v1alpha1.FormatJSON) }
func FuzzYAML(f *testing.F)       { fuzzReader(f, v1alpha1.FormatYAML) }
func FuzzTOML(f *testing.F)       { fuzzReader(f, v1alpha1.FormatTOML) }
func FuzzINI(f *testing.F)        { fuzzReader(f, v1alpha1.FormatINI) }
func FuzzProperties(f *testing.F) { fuzzReader(f, v1alpha1.FormatProperties) }

// fuzzReader seeds with the texts of the cases. What is read has to be written
// as JSON that says the same, and the other writers have to keep it or refuse.
func fuzzReader(f *testing.F, format v1alpha1.Format) {
	for _, c := range loadCases(f, "testdata/render-cases.yaml") {
		if text := c.document(f).Text; c.InputFormat == string(format) && len(text) < 2000 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc := render.Document{Format: format, Text: text}
		whole := fuzzRender(t, doc, render.Target{File: "x.json"})
		for _, shape := range []v1alpha1.Shape{v1alpha1.ShapeEntries, v1alpha1.ShapeEnvEntries} {
			fuzzRender(t, doc, render.Target{Shape: shape})
		}
		for _, file := range []string{"x.yaml", "x.toml", "x.ini", "x.properties"} {
			written := fuzzRender(t, doc, render.Target{File: file})
			if written == nil || whole == nil || file == "x.ini" || file == "x.properties" {
				continue
			}
			back := render.Document{Key: file, Text: written[file]}
			if got := string(fuzzRender(t, back, render.Target{File: "x.json"})["x.json"]); got != string(whole["x.json"]) {
				t.Fatalf("%s became %s by %s", whole["x.json"], got, written[file])
			}
		}
		if whole != nil && !json.Valid(whole["x.json"]) {
			t.Fatalf("no JSON: %s", whole["x.json"])
		}
	})
}

// fuzzRender renders twice and checks what a refusal has to have.
func fuzzRender(t *testing.T, doc render.Document, target render.Target) map[string][]byte {
	t.Helper()
	data, err := render.Render(doc, target)
	again, errAgain := render.Render(doc, target)
	if (err == nil) != (errAgain == nil) || len(data) != len(again) {
		t.Fatalf("one time %v, then %v", err, errAgain)
	}
	for name, value := range data {
		if string(again[name]) != string(value) {
			t.Fatalf("%s differs the second time", name)
		}
	}
	var refusal *render.Error
	if err != nil && (!errors.As(err, &refusal) || refusal.Reason == "" || strings.TrimSpace(refusal.Message) == "") {
		t.Fatalf("no refusal: %v", err)
	}
	return data
}

// FuzzKeyInvalid compares our verdict on names with the API server's.
func FuzzKeyInvalid(f *testing.F) {
	for _, name := range append(awkward, ".", "..", "..a", ".a", "a.b", strings.Repeat("k", 253), strings.Repeat("k", 254), "\xff") {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		data, err := render.Render(
			render.Document{Values: map[string][]byte{name: []byte("v")}}, render.Target{Shape: v1alpha1.ShapeEntries})
		if name == "$schema" { // dropped before it is a name
			if err != nil || len(data) > 0 {
				t.Fatalf("$schema gives %d entries and %v", len(data), err)
			}
			return
		}
		problems := validation.IsConfigMapKey(name)
		var refusal *render.Error
		refused := errors.As(err, &refusal) && refusal.Reason == v1alpha1.ReasonKeyInvalid
		if refused != (len(problems) > 0) || err != nil && !refused {
			t.Fatalf("%q: %v, the API server %v", name, err, problems)
		}
		_, err = render.Render(render.Document{Key: "x.json"}, render.Target{File: name})
		if errors.As(err, &refusal); err == nil && len(problems) > 0 {
			t.Fatalf("the file %q is taken, the API server says %v", name, problems)
		}
	})
}
