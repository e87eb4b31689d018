// Package metricstest compares the metrics that a process describes with those that
// docs/metrics.md promises, and holds them to Prometheus's rules for names.
package metricstest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// prefix is that of our own metrics; libraries bring others.
const prefix = "dynamicconfig_"

// Page holds what a section of a page promises: for each name its type and labels.
type Page map[string]struct{ Type, Labels string }

// row is a line of a table: | `name` | type | labels | meaning |.
var row = regexp.MustCompile("(?m)^\\| `(" + prefix + "[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\|")

// Read reads the section below a heading of a page.
func Read(t *testing.T, file, heading string) Page {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	page := Page{}
	for _, cells := range row.FindAllStringSubmatch(section, -1) {
		page[cells[1]] = struct{ Type, Labels string }{cells[2], labelSet(cells[3])}
	}
	return page
}

// description is the text form of a prometheus.Desc, which has no other.
var (
	description = regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	constLabel  = regexp.MustCompile(`(\w+)=`)
)

// Described are our metrics that collectors describe, with their labels.
func Described(t *testing.T, collectors ...prometheus.Collector) map[string]string {
	t.Helper()
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		for _, c := range collectors {
			c.Describe(ch)
		}
	}()
	all := map[string]string{}
	for d := range ch {
		parts := description.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("not understood: %s", d)
		}
		if strings.HasPrefix(parts[1], prefix) {
			labels := []string{parts[3]}
			for _, constant := range constLabel.FindAllStringSubmatch(parts[2], -1) {
				labels = append(labels, constant[1])
			}
			all[parts[1]] = labelSet(strings.Join(labels, " "))
		}
	}
	return all
}

// Agree compares what is described and gathered with what the page promises.
func (p Page) Agree(t *testing.T, described map[string]string, gathered []*dto.MetricFamily) {
	t.Helper()
	for name, promised := range p {
		labels, ok := described[name]
		switch {
		case !ok:
			t.Errorf("%s is on the page alone", name)
		case labels != promised.Labels:
			t.Errorf("%s has labels %q, on the page %q", name, labels, promised.Labels)
		}
	}
	for name := range described {
		if _, ok := p[name]; !ok {
			t.Errorf("%s is not on the page", name)
		}
	}
	for _, family := range gathered {
		kind := strings.ToLower(family.GetType().String())
		if promised, ok := p[family.GetName()]; ok && promised.Type != kind {
			t.Errorf("%s is a %s, on the page a %s", family.GetName(), kind, promised.Type)
		}
	}
}

// Lint holds our metrics among the gathered ones to the rules for names and texts.
func Lint(t *testing.T, gathered []*dto.MetricFamily) {
	t.Helper()
	own := slices.DeleteFunc(slices.Clone(gathered), func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), prefix)
	})
	problems, err := promlint.NewWithMetricFamilies(own).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// labelSet is a list of labels in one form.
func labelSet(text string) string {
	labels := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", `", r) })
	slices.Sort(labels)
	return strings.Join(labels, " ")
}
