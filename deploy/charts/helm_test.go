// Package charts_test renders the charts with helm as users do: it compares what
// comes out with what is kept, offers it to a real API server, and checks what the
// values' schemas refuse.
package charts_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/internal/testenv"
)

// namespace that everything is rendered for, as the documentation has it.
const namespace = "dynamic-config-system"

var (
	cluster *testenv.Cluster
	// helm is the binary that tools/go.mod pins.
	helm string
)

func TestMain(m *testing.M) {
	var err error
	if helm, err = toolPath(context.Background(), "helm"); err != nil {
		log.Fatal(err)
	}
	testenv.Main(m, func(c *testenv.Cluster) { cluster = c }, testenv.WithoutControllers)
}

// toolPath builds a tool of tools/go.mod, when it is not cached, and says where it is.
func toolPath(ctx context.Context, name string) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/go.mod", "-n", name)
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), &said
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, said.String())
	}
	return strings.TrimSpace(string(path)), nil
}

// run runs helm and returns what it printed, and what it complained of.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, args...)
	// No file of the user's own has a say.
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// render renders a chart with the values of a file.
func render(t *testing.T, chart, values string) string {
	t.Helper()
	out, said, err := run(t, "template", chart, chart, "--namespace", namespace, "--values", values)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return out
}
