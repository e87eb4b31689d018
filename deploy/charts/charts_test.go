package charts_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"dynamic-config.rs/fleet/deploy/crds"
	"dynamic-config.rs/fleet/internal/testbin"
)

var update = flag.Bool("update", false, "write what the charts render to testdata instead of comparing")

const (
	valuesSuffix = ".values.yaml"
	goldenSuffix = ".golden.yaml"
)

// cases are the files with values beside the charts.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("*", "testdata", "*"+valuesSuffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files with values, %v", len(files), err)
	}
	return files
}

func TestCharts_RenderWhatIsKept(t *testing.T) {
	for _, values := range cases(t) {
		t.Run(values, func(t *testing.T) {
			golden := strings.TrimSuffix(values, valuesSuffix) + goldenSuffix
			got := render(t, chartOf(values), values)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("run make generate-charts and look at what it changes:\n%s", diff)
			}
		})
	}
}

func TestCharts_Lint(t *testing.T) {
	for _, chart := range []string{"crds", "hub", "spoke"} {
		if out, said, err := run(t, "lint", "--strict", chart); err != nil {
			t.Errorf("%s: %v\n%s%s", chart, err, out, said)
		}
	}
	for _, values := range cases(t) {
		if out, said, err := run(t, "lint", "--strict", chartOf(values), "--values", values); err != nil {
			t.Errorf("%s: %v\n%s%s", values, err, out, said)
		}
	}
}

// What is rendered is what a real API server takes: no field it does not know, no
// pod that its restricted profile refuses.
func TestCharts_AnAPIServerTakesThem(t *testing.T) {
	kubectl, err := testbin.Path("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{
		namespace: {"pod-security.kubernetes.io/enforce": "restricted"}, "team-a": nil, "team-b": nil,
	} {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if err := cluster.Client.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
	}
	// A dry run keeps nothing, and a pod needs its ServiceAccount.
	for _, name := range []string{"dynamic-config-hub", "dynamic-config-spoke"} {
		made := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := cluster.Client.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
	}
	for _, values := range cases(t) {
		t.Run(values, func(t *testing.T) {
			var known []string
			for _, document := range documents(render(t, chartOf(values), values)) {
				// The kinds of the Prometheus operator and of cert-manager are not there.
				if !regexp.MustCompile(`(?m)^apiVersion: (monitoring\.coreos\.com|cert-manager\.io)/`).MatchString(document) {
					known = append(known, document)
				}
				if pod := podOf(t, document); pod != "" {
					known = append(known, pod)
				}
			}
			cmd := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", cluster.Kubeconfig,
				"apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
			cmd.Stdin = strings.NewReader(strings.Join(known, "\n---\n"))
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			if !strings.Contains(string(said), "pod/probe") {
				t.Errorf("no pod was offered:\n%s", said)
			}
		})
	}
}

// podOf is the pod that a Deployment would make, or nothing for another kind: the
// API server judges pods, not their templates.
func podOf(t *testing.T, document string) string {
	t.Helper()
	var deployment struct {
		Kind string
		Spec struct{ Template map[string]any }
	}
	if err := yaml.Unmarshal([]byte(document), &deployment); err != nil {
		t.Fatal(err)
	}
	if deployment.Kind != "Deployment" {
		return ""
	}
	pod := deployment.Spec.Template
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	metadata := pod["metadata"].(map[string]any)
	metadata["name"], metadata["namespace"] = "probe", namespace
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCharts_RefuseValuesThatTheyDoNotKnow(t *testing.T) {
	good := map[string]string{
		"crds": "/dev/null", "hub": "hub/testdata/default.values.yaml", "spoke": "spoke/testdata/minimal.values.yaml",
	}
	for name, c := range map[string]struct{ chart, set, says string }{
		"a value of no meaning":                 {"hub", "replica=3", "additional properties 'replica' not allowed"},
		"a value of no meaning below another":   {"hub", "service.ports=1", "at '/service': additional properties 'ports' not allowed"},
		"text where a number goes":              {"hub", "replicas=three", "at '/replicas': got string, want integer"},
		"a type of Service that cannot be":      {"hub", "service.type=ExternalName", "at '/service/type': value must be one of"},
		"a digest that is none":                 {"hub", "image.digest=latest", "at '/image/digest'"},
		"a duration without a unit":             {"hub", "sessionAge=30", "at '/sessionAge'"},
		"an unknown level of logs":              {"hub", "log.level=trace", "at '/log/level': value must be one of"},
		"cert-manager without an issuer":        {"hub", "ca.certManager.enabled=true", "at '/ca/certManager/issuerRef/name'"},
		"replicas of the agent":                 {"spoke", "replicas=2", "additional properties 'replicas' not allowed"},
		"an agent without a cluster":            {"spoke", "cluster=", "cluster is required"},
		"an agent without a hub":                {"spoke", "hub.address=", "hub.address is required"},
		"an agent without roots":                {"spoke", "hub.ca.configMap.name=", "hub.ca needs exactly one of"},
		"an agent with roots from two places":   {"spoke", "hub.ca.secret.name=a", "hub.ca needs exactly one of"},
		"roots that are no certificate":         {"spoke", "hub.ca.pem=hello", "at '/hub/ca/pem'"},
		"a cluster's name that is no label":     {"spoke", "cluster=Prod_EU", "at '/cluster'"},
		"an address with a scheme":              {"spoke", "hub.address=https://hub:1", "at '/hub/address'"},
		"an address without a port":             {"spoke", "hub.address=hub", "at '/hub/address'"},
		"a namespace that is none":              {"spoke", "watchNamespaces[0]=Team", "at '/watchNamespaces/0'"},
		"a value that the definitions know not": {"crds", "enabled=false", "additional properties 'enabled' not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			out, said, err := run(t, "template", c.chart, c.chart, "--values", good[c.chart], "--set", c.set)
			if err == nil || !strings.Contains(said, c.says) {
				t.Errorf("%v, want %q\n%s%s", err, c.says, said, out)
			}
		})
	}
}

func TestCRDs_AreTheGeneratedOnes(t *testing.T) {
	want, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ set, policy string }{
		"they stay when the release goes": {"keep=true", "keep"}, "or go with it": {"keep=false", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, said, err := run(t, "template", "crds", "crds", "--set", c.set)
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			got := map[string]*apiextensionsv1.CustomResourceDefinition{}
			for _, document := range documents(out) {
				crd := &apiextensionsv1.CustomResourceDefinition{}
				if err := yaml.UnmarshalStrict([]byte(document), crd); err != nil {
					t.Fatal(err)
				}
				got[crd.Name] = crd
			}
			for _, crd := range want {
				rendered := got[crd.Name]
				if rendered == nil {
					t.Fatalf("%s is missing in %v", crd.Name, slices.Sorted(maps.Keys(got)))
				}
				if policy := rendered.Annotations["helm.sh/resource-policy"]; policy != c.policy {
					t.Errorf("%s: policy %q", crd.Name, policy)
				}
				if diff := cmp.Diff(crd.Spec, rendered.Spec); diff != "" {
					t.Errorf("%s:\n%s", crd.Name, diff)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d definitions, want %d", len(got), len(want))
			}
		})
	}
}

// Alerts and dashboards ask for metrics that exist.
func TestMonitoring_NamesMetricsThatExist(t *testing.T) {
	name := regexp.MustCompile(`dynamicconfig_[a-z_]+`)
	exist := map[string]bool{}
	for _, tree := range []string{"hub", "hub/internal", "hub/internal/controller", "spoke", "spoke/internal", "internal"} {
		for _, file := range glob(t, "../../"+tree+"/*.go", "../../"+tree+"/*/*.go") {
			for _, found := range name.FindAllString(read(t, file), -1) {
				exist[found] = true
			}
		}
	}
	files := glob(t, "../alerts/*.yaml", "../dashboards/*.json")
	for _, file := range files {
		asked := name.FindAllString(read(t, file), -1)
		if len(asked) == 0 {
			t.Errorf("%s asks for nothing of ours", file)
		}
		for _, metric := range asked {
			if base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, ""); !exist[metric] && !exist[base] {
				t.Errorf("%s asks for %s, which nothing serves", file, metric)
			}
		}
	}
	if len(files) < 3 {
		t.Errorf("only %v", files)
	}
}

// chartOf is the chart that a file of values is for.
func chartOf(values string) string {
	chart, _, _ := strings.Cut(filepath.ToSlash(values), "/")
	return chart
}

// documents are the objects in a stream of YAML.
func documents(text string) []string {
	var found []string
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		if strings.Contains(document, "\nkind: ") || strings.HasPrefix(document, "kind: ") {
			found = append(found, document)
		}
	}
	return found
}

func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	var files []string
	for _, pattern := range patterns {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
