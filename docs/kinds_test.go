package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/deploy/crds"
	"dynamic-config.rs/fleet/internal/kindpages"
)

// The reference of fields is what the CustomResourceDefinitions say.
func TestKinds_ThePagesAreCurrent(t *testing.T) {
	all, err := crds.All()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d definitions, %v", len(all), err)
	}
	for _, crd := range all {
		text, err := os.ReadFile(filepath.Join("kinds", kindpages.FileName(crd)))
		if err != nil {
			t.Fatal(err)
		}
		want, err := kindpages.Update(string(text), crd)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(text)); diff != "" {
			t.Errorf("run make generate-docs (-want +page):\n%s", diff)
		}
	}
}
