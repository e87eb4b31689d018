package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A query passes when its metrics are served and a panel would show something.
func TestRun(t *testing.T) {
	const scrape = "# TYPE served_total counter\nserved_total{a=\"b\"} %\n# TYPE late_seconds histogram\nlate_seconds_bucket{le=\"1\"} %\nlate_seconds_bucket{le=\"+Inf\"} %\nlate_seconds_sum %\nlate_seconds_count %\n"
	const rules = "groups: [{name: g, rules: [{record: 'level:served:rate', expr: 'sum(rate(served_total[5m]))'}, {alert: A, expr: 'EXPR'}]}]"
	for name, tc := range map[string]struct{ alert, panel, wantErr string }{
		"what is served":                       {"served_total < 0", `rate(served_total{job=\"hub\", instance=\"0\"}[$__rate_interval])`, ""},
		"a histogram":                          {"served_total < 0", "histogram_quantile(0.9, sum by (le) (rate(late_seconds_bucket[5m])))", ""},
		"what a rule records":                  {"level:served:rate > 9", "level:served:rate", ""},
		"a panel with a metric of nobody":      {"served_total < 0", "sum(renamed_total)", "nobody serves renamed_total"},
		"an alert with a metric of nobody":     {"renamed_total > 0", "served_total", "nobody serves renamed_total"},
		"a metric of nobody behind an or":      {"served_total < 0", "sum(renamed_total) or vector(0)", "nobody serves renamed_total"},
		"a panel that would be empty":          {"served_total < 0", `served_total{a=\"renamed\"}`, "no series"},
		"a query that is none":                 {"served_total < 0", "sum(", "parse error"},
		"a rate of what was scraped only once": {"served_total < 0", "rate(served_total[30s])", "no series"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"hub.0.0.prom": strings.ReplaceAll(scrape, "%", "1"), "hub.0.1.prom": strings.ReplaceAll(scrape, "%", "7"),
				"rules.yaml": strings.Replace(rules, "EXPR", tc.alert, 1),
				"board.json": `{"panels":[{"title":"row"},{"title":"p","targets":[{"expr":"` + tc.panel + `"}]}]}`,
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			err := run(t.Context(), &out, dir, dir, dir)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("want %q, got %v\n%s", tc.wantErr, err, out.String())
			}
		})
	}
}
