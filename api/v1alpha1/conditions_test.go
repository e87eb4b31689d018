package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func TestReasons_AreUniqueDocumentedAndNamedAsTheirValue(t *testing.T) {
	pascal := regexp.MustCompile(`^([A-Z][a-z0-9]*)+$`)
	seen := map[string]bool{}
	eachConstant(t, "conditions.go", func(name, value, doc string) {
		if !strings.HasPrefix(name, "Reason") {
			return
		}
		if seen[value] {
			t.Errorf("%s: %q is another reason too", name, value)
		}
		seen[value] = true
		if name != "Reason"+value {
			t.Errorf("%s holds %q", name, value)
		}
		if !pascal.MatchString(value) && value != v1alpha1.ReasonStoreTLSFailed {
			t.Errorf("%s: %q is not PascalCase", name, value)
		}
		if !strings.HasPrefix(doc, name) {
			t.Errorf("%s has no comment that says what it means", name)
		}
	})
	if len(seen) < 30 {
		t.Errorf("found %d reasons only", len(seen))
	}
}

// TestReasons_OfReady holds the contract: a name that changes breaks whoever
// watches for it.
func TestReasons_OfReady(t *testing.T) {
	for got, want := range map[string]string{
		v1alpha1.ReasonRendered:        "Rendered",
		v1alpha1.ReasonClassNotFound:   "ClassNotFound",
		v1alpha1.ReasonClassNotAllowed: "ClassNotAllowed",
		v1alpha1.ReasonRenderFailed:    "RenderFailed",
		v1alpha1.ReasonPending:         "Pending",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// eachConstant calls visit with every string constant of a file.
func eachConstant(t *testing.T, file string, visit func(name, value, doc string)) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s is no literal", spec.Names[0])
			return false
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		visit(spec.Names[0].Name, value, spec.Doc.Text())
		return false
	})
}
