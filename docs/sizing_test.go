package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The page of sizing speaks of the charts' defaults.
func TestSizing_NamesTheChartsDefaults(t *testing.T) {
	page, err := os.ReadFile("sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, chart := range []string{"hub", "spoke"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", "charts", chart, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var values struct {
			Resources corev1.ResourceRequirements `json:"resources"`
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		requests, limit := values.Resources.Requests, values.Resources.Limits.Memory()
		row := fmt.Sprintf("| %s | %s, %s | %s, and no limit of processor |", chart, requests.Cpu(), requests.Memory(), limit)
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %s", row)
		}
	}
}
