//go:build kind

package kind_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/e2e/internal/kind"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// patience bounds every wait.
const patience = 5 * time.Minute

func hub() *kind.Cluster { return fleet.HubCluster }

func east() *kind.Cluster { return fleet.SpokeClusters[0] }

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, c *kind.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *testing.T, c *kind.Cluster, manifest string) {
	t.Helper()
	if _, err := c.Kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// until waits until a check passes.
func until(t *testing.T, check func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(gomega.Succeed())
}

// serve makes a class of documents kept in a namespace of the hub cluster, by the
// same name.
func serve(t *testing.T, name string) {
	t.Helper()
	apply(t, hub(), fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s-docs}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: ClusterDynamicConfigClass
metadata: {name: %[1]s}
spec: {source: kubernetes, kubernetes: {namespace: %[1]s-docs}}
`, name))
}

// document writes the document of a name, whose colour is a value.
func document(t *testing.T, class, name, colour string) {
	t.Helper()
	apply(t, hub(), fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {namespace: %s-docs, name: %s}
stringData: {app.json: '{"colour":%q}'}
`, class, name, colour))
}

// ask makes a Render that brings a document to the Secret of the same name, in the
// namespace of the class's name.
func ask(t *testing.T, c *kind.Cluster, class, name string) {
	t.Helper()
	apply(t, c, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: DynamicConfigRender
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  class: %[1]s
  classKind: ClusterDynamicConfigClass
  key: secrets/%[2]s/app.json
  target: {secret: %[2]s, shape: entries}
`, class, name))
}

// holds waits until a Secret holds a colour, and returns its resourceVersion.
func holds(t *testing.T, c *kind.Cluster, namespace, name, colour string) string {
	t.Helper()
	version := ""
	until(t, func() error {
		out, err := c.Kubectl(t.Context(), "", "get", "secret", "-n", namespace, name,
			"-o", `go-template={{index .data "colour" | base64decode}} {{.metadata.resourceVersion}}`)
		if err != nil {
			return err
		}
		got, v, _ := strings.Cut(out, " ")
		if version = v; got != colour {
			return fmt.Errorf("%s: %s/%s holds %s", c.Name, namespace, name, got)
		}
		return nil
	})
	return version
}

// app is the path of what the app of a pod serves, for kubectl get --raw.
func app(namespace, pod, path string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:8080/proxy/%s", namespace, pod, path)
}

// serves waits until the app in a pod serves a text.
func serves(t *testing.T, c *kind.Cluster, path, want string) {
	t.Helper()
	until(t, func() error {
		got, err := c.Kubectl(t.Context(), "", "get", "--raw", path)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s serves another text", path)
		}
		return nil
	})
}

// connected waits until the hub says that every spoke of the run is connected.
func connected(t *testing.T) {
	t.Helper()
	until(t, func() error {
		var missing error
		for _, c := range fleet.SpokeClusters {
			_, err := hub().Kubectl(t.Context(), "", "wait", "--for=condition=Ready", "--timeout=5s", "spokecluster/"+c.Name)
			missing = errors.Join(missing, err)
		}
		return missing
	})
}

// explain shows, after a failure, what runs and what it says.
func explain(t *testing.T) {
	t.Helper()
	for _, c := range append([]*kind.Cluster{hub()}, fleet.SpokeClusters...) {
		for _, args := range [][]string{
			{"get", "pods", "-A", "-o", "wide"},
			{"logs", "-n", stage.Namespace, "-l", "app.kubernetes.io/part-of=dynamic-config", "--tail=15", "--prefix"},
			{"get", "dynamicconfigrenders,spokeclusters,clusterdynamicconfigclasses", "-A", "-o", "wide"},
		} {
			out, err := c.Kubectl(t.Context(), "", args...)
			t.Logf("%s: kubectl %s: %v\n%s", c.Name, strings.Join(args, " "), err, out)
		}
	}
}
