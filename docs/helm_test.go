package docs_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// helm is the binary that tools/go.mod pins; it is built when it is not cached.
var helm = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=tools/go.mod", "-n", "helm")
	cmd.Dir = root
	path, err := cmd.Output()
	return strings.TrimSpace(string(path)), err
})

// template renders a chart with helm, which checks the values against the schema: it
// knows every value, so a name that is wrong is refused.
func template(t *testing.T, chart string, flags ...string) {
	t.Helper()
	program, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(filepath.Join(root, "deploy", "charts", chart))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"template", "x", folder, "--namespace", "dynamic-config-system"}, withNeeded(t, chart, flags)...)
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// withNeeded puts values in front that a chart cannot do without and that an example may
// leave out.
func withNeeded(t *testing.T, chart string, flags []string) []string {
	t.Helper()
	if chart != "spoke" {
		return flags
	}
	needed := "cluster: x\nhub: {address: 'hub:8443'}\n"
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "hub.ca.") }) {
		needed = "cluster: x\nhub: {address: 'hub:8443', ca: {configMap: {name: hub-ca}}}\n"
	}
	return append([]string{"--values", write(t, "needed.yaml", needed)}, flags...)
}
