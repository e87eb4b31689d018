package kindpages_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"dynamic-config.rs/fleet/deploy/crds"
	"dynamic-config.rs/fleet/internal/kindpages"
)

func TestUpdate(t *testing.T) {
	crd := all(t)[0]
	marked := "# By hand\n\n" + kindpages.Begin + "\nOUTDATED\n" + kindpages.End + "\n\nBy hand too\n"
	got, err := kindpages.Update(marked, crd)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "# By hand\n\n") || !strings.HasSuffix(got, "\n\nBy hand too\n") || strings.Contains(got, "OUTDATED") {
		t.Errorf("what is by hand stays, what was generated goes:\n%s", got)
	}
	if again, err := kindpages.Update(got, crd); err != nil || again != got {
		t.Errorf("a second run must change nothing, %v", err)
	}
	for name, page := range map[string]string{
		"no marks":             "# By hand\n",
		"a mark alone":         kindpages.Begin + "\n",
		"the wrong order":      kindpages.End + "\n" + kindpages.Begin + "\n",
		"a mark that is twice": marked + kindpages.Begin,
	} {
		if _, err := kindpages.Update(page, crd); err == nil {
			t.Errorf("%s must be refused", name)
		}
	}
}

// What a page says of fields is what a reader needs to write them.
func TestReference_SaysWhatTheDefinitionSays(t *testing.T) {
	var text strings.Builder
	for _, crd := range all(t) {
		text.WriteString(kindpages.Reference(crd))
	}
	for what, row := range map[string]string{
		"a field that is required, with its length": "| `spec.class` | string | required; 1 to 253 characters | Class is the name",
		"the values of an enumeration":              "| `spec.target.shape` | string | one of `file`, `envEntries`, `entries` |",
		"a list of texts":                           "| `spec.keys` | list of string | 1 to 256 items; no duplicates; each of 1 to 1024 characters |",
		"a type that Kubernetes documents":          "| `spec.clusters` | label selector |  |",
		"a field in a list":                         "| `status.classes[].class` | string | required |",
		"a time":                                    "| `spec.joinToken.expiresAt` | time | required |",
		"a rule of an object in the spec":           "- `spec.vault.auth`: exactly one of token, appRole, kubernetes and jwt is needed",
		"a rule of the whole object":                "- `metadata`: the name must be a DNS label",
		"a column of -o wide":                       "Age, (Message)",
	} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("%s: no %q", what, row)
		}
	}
}

func all(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	return definitions
}
