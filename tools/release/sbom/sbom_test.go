package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// The binary of this test is one of those that it describes.
func TestWrite_NamesTheModulesOfABinary(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := write(out, "v1", "2026-01-01T00:00:00Z", []string{binary}); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("it differs from one time to the next")
	}
	bom := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(&first, cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"stdlib", "github.com/CycloneDX/cyclonedx-go"} {
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == module && c.Version != "" }) {
			t.Errorf("%s is missing", module)
		}
	}
}

func TestWrite_RefusesWhatIsNoGoBinary(t *testing.T) {
	file := t.TempDir() + "/text"
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(&bytes.Buffer{}, "v1", "", []string{file}); err == nil {
		t.Error("no error")
	}
}
