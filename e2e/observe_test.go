package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// A change of a document is one trace, over the hub and the agents of both clusters.
func TestTraces_OneFromTheStoreToEveryTarget(t *testing.T) {
	document := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "traced-docs", Name: "shop"},
		StringData: map[string]string{"db.yaml": "password: first\n"},
	}
	create(t, fleet.Hub.Cluster, namespace("traced-docs"), document, clusterClass("traced", "traced-docs"))
	namespaces(t, "traced")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("traced", "traced", "secrets/shop/db.yaml"))
		holds(t, spoke, "traced", "password", "first")
	}
	update(t, fleet.Hub.Cluster, document, func(s *corev1.Secret) { s.Data["db.yaml"] = []byte("password: second\n") })
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "traced", "password", "second")
	}

	want := map[string]int{ // two clusters, and one rendering for both
		"dynamic-config-hub store.Watch": 1, "dynamic-config-hub render.Reconcile": 2, "dynamic-config-hub policy.Evaluate": 2,
		"dynamic-config-hub render.Render": 1, "dynamic-config-hub fleet.Deliver": 2, "dynamic-config-hub syncserver.Session": 2,
		"dynamic-config-spoke apply.Apply": 2,
	}
	gomega.NewWithT(t).Eventually(func() string {
		changes := collected.where(func(s span) bool {
			return s.GetName() == "store.Watch" && strings.HasSuffix(s.attribute("class"), "/traced") && s.attribute("key") == "secrets/shop/db.yaml"
		})
		if len(changes) == 0 {
			return "the change is not there"
		}
		id := string(changes[len(changes)-1].GetTraceId())
		got := map[string]int{}
		for _, s := range collected.where(func(s span) bool { return string(s.GetTraceId()) == id }) {
			got[s.service+" "+s.GetName()]++
		}
		return cmp.Diff(want, got)
	}).WithTimeout(patience).Should(gomega.BeEmpty())
}

// What the dashboard shows and the rules look at is what a hub and its agents serve:
// every query has its metrics, and every panel a series.
func TestMetrics_TheDashboardAndTheRulesFindWhatTheyAskFor(t *testing.T) {
	document := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "measured-docs", Name: "shop"},
		StringData: map[string]string{"db.yaml": "round: \"0\"\n"},
	}
	create(t, fleet.Hub.Cluster, namespace("measured-docs"), document,
		clusterClass("measured", "measured-docs", func(s *v1alpha1.ClusterDynamicConfigClassSpec) { s.Namespaces = []string{"measured"} }))
	namespaces(t, "measured")
	namespaces(t, "measured-stranger")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("measured", "measured", "secrets/shop/db.yaml"), render("measured-stranger", "measured", "secrets/shop/db.yaml"))
		holds(t, spoke, "measured", "round", "0")
		isReady(t, spoke, "measured-stranger", metav1.ConditionFalse, v1alpha1.ReasonClassNotAllowed)
	}
	dir := t.TempDir()
	for round := range 2 {
		value := fmt.Sprint(round + 1)
		update(t, fleet.Hub.Cluster, document, func(s *corev1.Secret) { s.Data["db.yaml"] = []byte("round: \"" + value + "\"\n") })
		for _, spoke := range fleet.Spokes {
			holds(t, spoke, "measured", "round", value)
		}
		keepScrapes(t, dir, round)
	}
	program := buildEvaluator(t)
	gomega.NewWithT(t).Eventually(func() string {
		keepScrapes(t, dir, 1) // counts of Renders come with the next look at a class
		evaluate := exec.CommandContext(t.Context(), program, "-scrapes", dir, "-rules", "../../deploy/alerts", "-dashboards", "../../deploy/dashboards")
		evaluate.Dir = "../tools/promql"
		if out, err := evaluate.CombinedOutput(); err != nil {
			return string(out)
		}
		return ""
	}).WithTimeout(2 * patience).WithPolling(time.Second).Should(gomega.BeEmpty())
}

// buildEvaluator builds the program in tools/promql, and returns its path. From an empty
// cache that takes longer than a wait for the hub.
func buildEvaluator(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "promql")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../tools/promql"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// keepScrapes keeps what the processes serve now, for the program in tools/promql.
func keepScrapes(t *testing.T, dir string, number int) {
	t.Helper()
	urls := map[string]string{"dynamic-config-hub.hub-0": fleet.Hub.MetricsURL}
	for _, spoke := range fleet.Spokes {
		urls["dynamic-config-spoke."+spoke.Name] = spoke.MetricsURL
	}
	for process, url := range urls {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.%d.prom", process, number)), scrape(t, url), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The level of a process is shown to who is on its host.
func TestLogLevel_IsBesideTheMetrics(t *testing.T) {
	for _, url := range metricsURLs() {
		if level := scrape(t, strings.Replace(url, "/metrics", "/debug/loglevel", 1)); string(level) != "DEBUG\n" {
			t.Errorf("%s: %q", url, level)
		}
	}
}

// No line of a log holds what JSON could not.
func TestLogs_AreJSON(t *testing.T) {
	logs := []func() ([]byte, error){fleet.Hub.Log}
	for _, spoke := range fleet.Spokes {
		logs = append(logs, spoke.Log)
	}
	for _, read := range logs {
		text, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, `{"time":`) || strings.Contains(line, "!ERROR") {
				t.Errorf("a line that is none: %s", line)
			}
		}
	}
}

func metricsURLs() []string {
	urls := []string{fleet.Hub.MetricsURL}
	for _, spoke := range fleet.Spokes {
		urls = append(urls, spoke.MetricsURL)
	}
	return urls
}

// scrape reads a page of a process.
func scrape(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return text
}
