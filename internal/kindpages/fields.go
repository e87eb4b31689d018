package kindpages

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// writeFields writes the table of the fields below a path.
func writeFields(out io.Writer, path string, schema *apiextensionsv1.JSONSchemaProps) {
	fmt.Fprintf(out, "\n| field | type | rules | |\n|---|---|---|---|\n")
	writeRows(out, path, schema)
}

// writeRows writes a row for each field, and the rows of what is in it below it.
func writeRows(out io.Writer, path string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		below := path + "." + name
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", below, typeOf(&field),
			strings.Join(limits(&field, slices.Contains(schema.Required, name)), "; "), oneLine(field.Description))
		switch {
		case wellKnown(&field) != "":
		case itemOf(&field) != nil:
			if item := itemOf(&field); wellKnown(item) == "" {
				writeRows(out, below+"[]", item)
			}
		default:
			writeRows(out, below, &field)
		}
	}
}

// wellKnown is the name of a type that Kubernetes documents; empty for others.
func wellKnown(schema *apiextensionsv1.JSONSchemaProps) string {
	has := func(name string) bool { _, ok := schema.Properties[name]; return ok }
	switch {
	case has("matchLabels") && has("matchExpressions"):
		return "label selector"
	case has("lastTransitionTime") && has("reason"):
		return "condition"
	}
	return ""
}

// typeOf is the type of a field for people.
func typeOf(schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case wellKnown(schema) != "":
		return wellKnown(schema)
	case itemOf(schema) != nil:
		return "list of " + typeOf(itemOf(schema))
	case schema.Format == "date-time":
		return "time"
	}
	return schema.Type
}

// limits are the rules that the schema has for one field.
func limits(schema *apiextensionsv1.JSONSchemaProps, required bool) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if required {
		add("required")
	}
	if schema.Default != nil {
		add("default `%s`", schema.Default.Raw)
	}
	if len(schema.Enum) > 0 {
		add("%s", oneOf(schema.Enum))
	}
	if schema.Minimum != nil {
		add("at least %v", *schema.Minimum)
	}
	if length := length(schema); length != "" {
		add("%s", length)
	}
	if schema.MaxItems != nil {
		add("%s items", span(schema.MinItems, *schema.MaxItems))
	}
	if schema.Pattern != "" {
		add("matches `%s`", strings.ReplaceAll(schema.Pattern, "|", `\|`))
	}
	if schema.XListType != nil && *schema.XListType == "set" {
		add("no duplicates")
	}
	if each := length(itemOf(schema)); each != "" {
		add("each of %s", each)
	}
	return all
}

// length is how many characters a field may have; empty where nothing says it.
func length(schema *apiextensionsv1.JSONSchemaProps) string {
	if schema == nil || schema.MaxLength == nil {
		return ""
	}
	return span(schema.MinLength, *schema.MaxLength) + " characters"
}

// itemOf is the schema of the items of a list; nil for no list.
func itemOf(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.Items == nil {
		return nil
	}
	return schema.Items.Schema
}

// span is a range of counts for people.
func span(least *int64, most int64) string {
	if least == nil || *least == 0 {
		return fmt.Sprintf("at most %d", most)
	}
	return fmt.Sprintf("%d to %d", *least, most)
}

// oneOf lists the values of an enumeration.
func oneOf(values []apiextensionsv1.JSON) string {
	names := make([]string, 0, len(values))
	for _, value := range values {
		names = append(names, "`"+strings.Trim(string(value.Raw), `"`)+"`")
	}
	return "one of " + strings.Join(names, ", ")
}

// rule is what the API server checks beyond single fields.
type rule struct{ path, says string }

// rules are the rules of a schema and of all in it.
func rules(path string, schema *apiextensionsv1.JSONSchemaProps) []rule {
	all := ownRules(path, schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		all = append(all, rules(path+"."+name, &field)...)
	}
	return all
}

// ownRules are the rules of one schema.
func ownRules(path string, schema *apiextensionsv1.JSONSchemaProps) []rule {
	all := make([]rule, 0, len(schema.XValidations))
	for _, validation := range schema.XValidations {
		all = append(all, rule{path, oneLine(validation.Message)})
	}
	return all
}

// writeRules lists rules, with the words of the refusal.
func writeRules(out io.Writer, all []rule) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(out, "\nThe API server refuses what breaks a rule, with these words:\n\n")
	for _, r := range all {
		fmt.Fprintf(out, "- `%s`: %s\n", r.path, r.says)
	}
}
