package v1alpha1_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page of reasons is where an alert links to: a heading for each reason of a
// condition, a session or an enrolment, and none for anything else.
func TestReasons_ThePageHasAHeadingForEach(t *testing.T) {
	page, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings, reasons []string
	for _, match := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(string(page), -1) {
		headings = append(headings, match[1])
	}
	for _, file := range []string{"conditions.go", "../../internal/identity/errors.go"} {
		eachConstant(t, file, func(name, value, _ string) {
			if strings.HasPrefix(name, "Reason") {
				reasons = append(reasons, value)
			}
		})
	}
	slices.Sort(headings)
	slices.Sort(reasons)
	// Suspended and NotAccepted are conditions and refusals.
	if diff := cmp.Diff(slices.Compact(reasons), headings); diff != "" {
		t.Errorf("reasons and headings (-constants +page):\n%s", diff)
	}
}
