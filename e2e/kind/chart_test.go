//go:build kind

package kind_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/e2e/internal/kind"
)

// testExistingSecret installs a chart that takes existingSecret. The password is in
// Vault, on the way, and in the one Secret: in no values, no manifest, no file of the
// repository, and no credential of Vault is in the workload cluster at all.
func testExistingSecret(t *testing.T) {
	password := rand.Text()
	secretID := databaseInVault(t, password)
	// The chart first: it waits for its Secret.
	chart := filepath.Join(fleet.Root, "e2e", "kind", "testdata", "database")
	helm(t, east(), "install", "database", chart, "--namespace", "database", "--create-namespace", "--set", "auth.existingSecret=database-credentials")
	apply(t, east(), `
apiVersion: dynamic-config.rs/v1alpha1
kind: DynamicConfigRender
metadata: {namespace: database, name: database}
spec:
  class: database
  classKind: ClusterDynamicConfigClass
  key: secret/database/main
  target: {secret: database-credentials, shape: entries}
`)
	kubectl(t, east(), "rollout", "status", "-n", "database", "statefulset/database", "--timeout=3m")
	serves(t, east(), app("database", "database-0", "env?name=POSTGRES_PASSWORD"), password)

	if all := helm(t, east(), "get", "all", "database", "--namespace", "database"); strings.Contains(all, password) {
		t.Error("the release holds the password")
	}
	if holders := objectsWith(t, east(), password); len(holders) != 1 || holders[0] != "Secret database/database-credentials" {
		t.Errorf("the password is in %q", holders)
	}
	if found := onDisk(t, fleet.Root, []byte(password), "out", ".git"); len(found) > 0 {
		t.Errorf("files of the repository hold the password: %q", found)
	}
	for _, c := range []*kind.Cluster{east(), hub()} {
		disk, err := c.Disk(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := onDisk(t, disk, []byte(secretID))
		if (len(found) > 0) != (c == hub()) {
			t.Errorf("%s: the credential of Vault is in %q", c.Name, found)
		}
	}
}

// databaseInVault writes the document, and a class that logs in for it alone. It
// returns the credential of that login.
func databaseInVault(t *testing.T, password string) string {
	t.Helper()
	vault := fleet.Vault()
	call := func(method, path string, body, answer any) {
		t.Helper()
		if err := vault.Call(t.Context(), method, path, body, answer); err != nil {
			t.Fatal(err)
		}
	}
	call(http.MethodPost, "secret/data/database/main", map[string]any{"data": map[string]string{"postgres-password": password}}, nil)
	call(http.MethodPut, "sys/policies/acl/database", map[string]string{
		"policy": `path "secret/+/database/*" { capabilities = ["read"] }`,
	}, nil)
	call(http.MethodPost, "auth/approle/role/database", map[string]string{"token_policies": "database", "token_ttl": "1h"}, nil)
	var role struct {
		RoleID string `json:"role_id"`
	}
	call(http.MethodGet, "auth/approle/role/database/role-id", nil, &role)
	var secret struct {
		SecretID string `json:"secret_id"`
	}
	call(http.MethodPost, "auth/approle/role/database/secret-id", nil, &secret)
	apply(t, hub(), fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: database-vault}
stringData: {token: %s}
---
apiVersion: dynamic-config.rs/v1alpha1
kind: ClusterDynamicConfigClass
metadata: {name: database}
spec:
  source: vault
  endpoint: http://vault.stores.svc:8200
  tokenSecret: {namespace: default, name: database-vault}
  vault: {auth: {appRole: {roleID: %s}}}
`, secret.SecretID, role.RoleID))
	return secret.SecretID
}

func helm(t *testing.T, c *kind.Cluster, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), fleet.Helm, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// objectsWith are the Secrets and ConfigMaps of a cluster that hold a text, as it is
// or in base64.
func objectsWith(t *testing.T, c *kind.Cluster, text string) []string {
	t.Helper()
	var found []string
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	list := kubectl(t, c, "get", "secrets,configmaps", "-A", "-o",
		`go-template={{range .items}}{{.kind}} {{.metadata.namespace}}/{{.metadata.name}}{{"\t"}}{{.data}}{{.metadata.annotations}}{{"\x00"}}{{end}}`)
	for object := range strings.SplitSeq(list, "\x00") {
		name, held, _ := strings.Cut(object, "\t")
		if strings.Contains(held, text) || strings.Contains(held, encoded) {
			found = append(found, name)
		}
	}
	return found
}

// onDisk are the files below a folder that hold a text, but for some folders.
func onDisk(t *testing.T, dir string, text []byte, but ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, skip := range but {
			if path == filepath.Join(dir, skip) && entry.IsDir() {
				return fs.SkipDir
			}
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
