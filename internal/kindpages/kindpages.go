// Package kindpages writes the reference part of the pages in docs/kinds: what a
// CustomResourceDefinition says of its kind, between two marks of the page. All else on a
// page is written by hand and stays.
//
// The text of a field is its godoc in api/v1alpha1, as the CustomResourceDefinition holds
// it. The command below cmd runs it; make generate calls that.
package kindpages

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Begin and End stand around what is generated, each on a line of its own.
const (
	Begin = "<!-- generated from the CustomResourceDefinition by make generate -->"
	End   = "<!-- end of what is generated -->"
)

// FileName is the name of the page of a kind.
func FileName(crd *apiextensionsv1.CustomResourceDefinition) string {
	return crd.Spec.Names.Singular + ".md"
}

// Update returns the page with its generated part replaced. It fails on a page that has
// not exactly one pair of marks.
func Update(page string, crd *apiextensionsv1.CustomResourceDefinition) (string, error) {
	if strings.Count(page, Begin) != 1 || strings.Count(page, End) != 1 {
		return "", fmt.Errorf("want the two marks once each: %s", Begin)
	}
	before, rest, _ := strings.Cut(page, Begin)
	_, after, found := strings.Cut(rest, End)
	if !found {
		return "", fmt.Errorf("the marks are in the wrong order")
	}
	return before + Begin + "\n" + Reference(crd) + End + after, nil
}

// Reference is what a CustomResourceDefinition says of its kind, in Markdown.
func Reference(crd *apiextensionsv1.CustomResourceDefinition) string {
	version := crd.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s\n\n", oneLine(root.Description))
	fmt.Fprintf(&out, "| | |\n|---|---|\n")
	fmt.Fprintf(&out, "| apiVersion, kind | `%s/%s`, `%s` |\n", crd.Spec.Group, version.Name, crd.Spec.Names.Kind)
	fmt.Fprintf(&out, "| scope | %s |\n", scope(crd))
	fmt.Fprintf(&out, "| names for kubectl | `%s`, `%s`, `%s` |\n",
		crd.Spec.Names.Plural, crd.Spec.Names.Singular, strings.Join(crd.Spec.Names.ShortNames, "`, `"))
	fmt.Fprintf(&out, "| columns | %s |\n", columns(version.AdditionalPrinterColumns))
	for _, part := range []string{"spec", "status"} {
		schema := root.Properties[part]
		fmt.Fprintf(&out, "\n### %s\n\n%s\n", part, oneLine(schema.Description))
		writeFields(&out, part, &schema)
		writeRules(&out, rules(part, &schema))
	}
	if len(root.XValidations) > 0 {
		fmt.Fprintf(&out, "\n### metadata\n")
		writeRules(&out, ownRules("metadata", root))
	}
	out.WriteString("\n")
	return out.String()
}

// scope says where objects of the kind are.
func scope(crd *apiextensionsv1.CustomResourceDefinition) string {
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		return "a namespace"
	}
	return "the cluster"
}

// columns are what kubectl get shows; those in brackets with -o wide alone.
func columns(all []apiextensionsv1.CustomResourceColumnDefinition) string {
	names := make([]string, 0, len(all))
	for _, column := range all {
		if column.Priority > 0 {
			names = append(names, "("+column.Name+")")
		} else {
			names = append(names, column.Name)
		}
	}
	return strings.Join(names, ", ")
}

// oneLine makes a paragraph of a godoc text, fit for a cell of a table.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
