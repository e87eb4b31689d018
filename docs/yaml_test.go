package docs_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"dynamic-config.rs/fleet/internal/testbin"
	"dynamic-config.rs/fleet/internal/testenv"
)

// An example is taken by a real API server as it stands, or by the program that it is for.
func TestPages_EveryYAMLBlockIsTaken(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "yaml" || p.decision() {
				continue
			}
			checked++
			t.Run(b.at, func(t *testing.T) {
				first, _, _ := strings.Cut(b.text, "\n")
				switch chart := valuesOf.FindStringSubmatch(first); {
				case chart != nil:
					if err := template(t, chart[1], withNeeded(t, chart[1], []string{"--values", write(t, "values.yaml", b.text)})...); err != nil {
						t.Error(err)
					}
				case first == "# kustomization.yaml":
					kustomize(t, b.text)
				default:
					offer(t, b.text)
				}
			})
		}
	}
	if checked < 15 {
		t.Errorf("only %d blocks of YAML", checked)
	}
}

// Manifests in a command's standard input are taken too, after the shell has written them.
func TestPages_EveryManifestInACommandIsTaken(t *testing.T) {
	// What the pages' own commands before it would have set.
	const variables = `ISSUER=https://kubernetes.default.svc JWKS='{"keys":[]}' TOKEN=t; `
	checked := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, found := range heredoc.FindAllStringSubmatch(b.text, -1) {
				checked++
				t.Run(b.at, func(t *testing.T) {
					script := variables + "cat " + found[1]
					text, err := exec.CommandContext(t.Context(), "bash", "-euc", script).Output()
					if err != nil {
						t.Fatal(err)
					}
					offer(t, string(text))
				})
			}
		}
	}
	if checked < 2 {
		t.Errorf("only %d manifests", checked)
	}
}

// A policy is taken by a real Vault, a line of JSON by a parser.
func TestPages_EveryOtherExampleIsTaken(t *testing.T) {
	checked := map[string]int{}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			checked[b.lang]++
			switch b.lang {
			case "hcl":
				vault := testenv.Vault(t)
				if err := vault.Call(t.Context(), http.MethodPut, "sys/policies/acl/page", map[string]string{"policy": b.text}, nil); err != nil {
					t.Errorf("%s: %v", b.at, err)
				}
			case "json":
				for line := range strings.Lines(b.text) {
					if !json.Valid([]byte(line)) {
						t.Errorf("%s: no JSON: %s", b.at, line)
					}
				}
			}
		}
	}
	if checked["hcl"] == 0 || checked["json"] == 0 {
		t.Errorf("checked %v", checked)
	}
}

var (
	// valuesOf is the first line of a block with values of a chart.
	valuesOf = regexp.MustCompile(`^# values of the chart (\w+)$`)
	// heredoc is a command that applies what stands below it.
	heredoc = regexp.MustCompile(`(?ms)^\$ kubectl apply -f - (<<EOF\n.*?^EOF\n)`)
	// foreign are the groups of others that a page may show.
	foreign = regexp.MustCompile(`^external-secrets\.io/v1$`)
)

// offer creates each object of a text on the API server, without keeping it.
func offer(t *testing.T, text string) {
	t.Helper()
	for _, document := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
			t.Fatal("the block is no whole object, and does not say that it is something else")
		}
		if foreign.MatchString(object.GetAPIVersion()) {
			continue
		}
		makeNamespace(t, object.GetNamespace())
		if err := cluster.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Error(err)
		}
	}
}

// makeNamespace makes a namespace that is not there yet.
func makeNamespace(t *testing.T, name string) {
	t.Helper()
	if name == "" {
		return
	}
	err := cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// kustomize builds a kustomization with this tree in the place of its address.
func kustomize(t *testing.T, text string) {
	t.Helper()
	kubectl, err := testbin.Path("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "https://…/", up+"/")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A patch of a path that is something else would be taken as well.
	for _, flag := range []string{"--cluster=", "--hub-address="} {
		if strings.Count(string(out), "- "+flag) != 1 {
			t.Errorf("%s is not there once:\n%s", flag, out)
		}
	}
}

// write writes a file of the test's own and returns its name.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
