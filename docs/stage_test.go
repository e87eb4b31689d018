package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testbin"
)

// stage is what the pages' commands find: an API server with what the charts install,
// and with the objects and files that the pages speak of.
type stage struct {
	t *testing.T
	// kubectl, helm and buf are the programs.
	kubectl, helm, buf string
	// kubeconfig has the contexts that the pages name. All are one cluster.
	kubeconfig string
	// files is a folder with the documents that the pages name.
	files string
	// compared counts the outputs of dynconf that were compared with a page's.
	compared int
}

// contexts are the clusters that pages speak of.
var contexts = []string{"hub", "edge", "prod-eu", "prod-us"}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, files: t.TempDir(), kubeconfig: filepath.Join(t.TempDir(), "config")}
	var errs [3]error
	s.kubectl, errs[0] = testbin.Path("kubectl")
	s.helm, errs[1] = helm()
	s.buf, errs[2] = buf()
	if err := errors.Join(errs[0], errs[1], errs[2], s.writeKubeconfig()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", s.kubeconfig)
	for name, text := range map[string]string{
		"database.json": `{"db": {"host": "h", "port": 5432}}`,
		"postgres.json": `{"host": "h", "port": 5432, "password": "new"}`,
	} {
		if err := os.WriteFile(filepath.Join(s.files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.fill()
	return s
}

// writeKubeconfig gives the cluster all names. A user of it works in a namespace of theirs.
func (s *stage) writeKubeconfig() error {
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		return err
	}
	own := config.Contexts[config.CurrentContext]
	own.Namespace = "shop"
	for _, name := range contexts {
		config.Contexts[name] = own
	}
	return clientcmd.WriteToFile(*config, s.kubeconfig)
}

// fill makes the objects, and takes them away after the test.
func (s *stage) fill() {
	s.t.Helper()
	for _, name := range []string{"dynamic-config-system", "shop", "team-a"} {
		makeNamespace(s.t, name)
	}
	charts := ""
	for _, args := range [][]string{{"hub", "--set", "web.enabled=true"}, {"spoke", "--set", "cluster=prod-eu,hub.address=hub:8443,hub.ca.configMap.name=dynamic-config-hub-ca"}} {
		text, err := s.run(root, s.helm, append([]string{"template", args[0], filepath.Join("deploy", "charts", args[0]), "--namespace", "dynamic-config-system"}, args[1:]...)...)
		if err != nil {
			s.t.Fatal(err)
		}
		charts += text
	}
	all := write(s.t, "objects.yaml", charts+objects)
	s.t.Cleanup(func() {
		// The test's context is over by then.
		ctx := context.WithoutCancel(s.t.Context())
		if out, err := exec.CommandContext(ctx, s.kubectl, "--kubeconfig", s.kubeconfig, "delete", "--wait=false", "--ignore-not-found", "-f", all).CombinedOutput(); err != nil {
			s.t.Errorf("%v\n%s", err, out)
		}
	})
	if _, err := s.run(root, s.kubectl, "apply", "--server-side", "-f", all); err != nil {
		s.t.Fatal(err)
	}
	for _, object := range []string{"dynamicconfigrender/database", "dynamicconfigrender/db", "dynamicconfigrender/web", "clusterdynamicconfigclass/vault", "spokecluster/prod-eu"} {
		if _, err := s.run(root, s.kubectl, "patch", object, "--subresource=status", "--type=merge", "-p", ready); err != nil {
			s.t.Fatal(err)
		}
	}
	uid, err := s.run(root, s.kubectl, "get", "-n", "shop", "dynamicconfigrender/db", "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.run(root, s.kubectl, "label", "-n", "shop", "secret/pg", v1alpha1.LabelRenderUID+"="+uid); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a program and returns what it prints. What it complains of is the error.
func (s *stage) run(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), name, args...)
	cmd.Dir = dir
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, complaint.String())
	}
	if strings.Contains(complaint.String(), "unknown field") {
		return string(out), errors.New(complaint.String())
	}
	return string(out), nil
}

// ready is the status of an object with which all is well, whatever its generation.
const ready = `{"status":{"observedGeneration":1000,"conditions":[{"type":"Ready","status":"True","reason":"Rendered","message":"","lastTransitionTime":"2026-03-01T09:12:44Z"}]}}`

// objects are what the pages' examples would have made before.
const objects = `
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: dynamic-config-system, name: dynamic-config-hub-ca}
data: {ca.crt: "-----BEGIN CERTIFICATE-----"}
---
apiVersion: v1
kind: Secret
metadata: {namespace: dynamic-config-system, name: dynamic-config-hub-ca}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: dynamic-config-system, name: fleet-viewer}
---
apiVersion: v1
kind: Secret
metadata:
  namespace: shop
  name: database
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: x}]
stringData: {host: h}
---
apiVersion: v1
kind: Secret
metadata: {namespace: shop, name: database-trial}
stringData: {host: h}
---
apiVersion: v1
kind: Secret
metadata:
  namespace: shop
  name: pg
  labels: {app.kubernetes.io/managed-by: dynamic-config}
  annotations: {dynamic-config.rs/render: db}
stringData: {host: h, password: old, user: u}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: DynamicConfigRender
metadata: {namespace: shop, name: database}
spec: {class: vault, classKind: ClusterDynamicConfigClass, key: secret/database, target: {secret: database, shape: entries}}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: DynamicConfigRender
metadata: {namespace: shop, name: db}
spec: {class: vault, classKind: ClusterDynamicConfigClass, key: secret/postgres, target: {secret: pg, shape: entries}}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: DynamicConfigRender
metadata: {namespace: shop, name: web}
spec: {class: vault, classKind: ClusterDynamicConfigClass, key: secret/web, target: {configMap: web, shape: entries}}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: ClusterDynamicConfigClass
metadata: {name: vault}
spec: {source: vault, endpoint: "https://vault.infra:8200", tokenSecret: {namespace: shop, name: vault}}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: SpokeCluster
metadata: {name: prod-eu, labels: {env: prod}}
spec: {accepted: true}
`
