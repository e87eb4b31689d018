package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// The page of sizing speaks of the charts' defaults, and Go is told of each limit.
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
			Resources  corev1.ResourceRequirements `json:"resources"`
			GoMemLimit string                      `json:"goMemLimit"`
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		requests, limit := values.Resources.Requests, values.Resources.Limits.Memory()
		row := fmt.Sprintf("| %s | %s, %s | %s, and no limit of processor |", chart, requests.Cpu(), requests.Memory(), limit)
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %s", row)
		}
		// A quantity has no B at its end.
		soft := resource.MustParse(strings.TrimSuffix(values.GoMemLimit, "B"))
		if share := float64(soft.Value()) / float64(limit.Value()); share < 0.88 || share > 0.92 {
			t.Errorf("chart %s: goMemLimit is %.2f of the limit", chart, share)
		}
	}
}
