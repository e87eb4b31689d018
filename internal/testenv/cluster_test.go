package testenv_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testbin"
	"dynamic-config.rs/fleet/internal/testenv"
)

// eventually is how long an API server on a loaded machine may take. The
// garbage collector forgets and retries an owner that it did not know for 30 s.
const eventually = 90 * time.Second

func TestControlPlane_CollectsWhatARenderOwns(t *testing.T) {
	g := gomega.NewWithT(t)
	c := testenv.ControlPlane(t).Client
	namespace := "owned"
	g.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(gomega.Succeed())

	owner := &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "c", Key: "a.json", Target: v1alpha1.RenderTarget{ConfigMap: "owned", File: "a.json"},
		},
	}
	g.Expect(c.Create(t.Context(), owner)).To(gomega.Succeed())
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind("DynamicConfigRender")),
		},
	}}
	g.Expect(c.Create(t.Context(), owned)).To(gomega.Succeed())
	g.Expect(c.Delete(t.Context(), owner)).To(gomega.Succeed())
	begin := time.Now()
	g.Eventually(func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(owned), owned))
	}).WithTimeout(eventually).Should(gomega.BeTrue(), "the target outlives its owner")
	t.Logf("collected after %.1f s", time.Since(begin).Seconds())

	g.Expect(c.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(gomega.Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{}))
	}).WithTimeout(eventually).Should(gomega.BeTrue(), "the namespace never goes")
}

func TestControlPlane_AServiceAccountMayDoWhatRBACSays(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster := testenv.ControlPlane(t)
	namespace := metav1.NamespaceDefault
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "reader"}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: meta.Name}},
		},
	} {
		g.Expect(cluster.Client.Create(t.Context(), object)).To(gomega.Succeed())
	}
	config, err := cluster.ServiceAccountConfig(t.Context(), namespace, meta.Name)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(config.CertData).To(gomega.BeEmpty(), "the administrator's certificate leaked into it")
	reader, err := testenv.NewClient(config)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	// The authorizer reads roles from a watch, which may lag behind the create.
	g.Eventually(func() error {
		return reader.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(namespace))
	}).WithTimeout(eventually).Should(gomega.Succeed())
	err = reader.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace))
	g.Expect(apierrors.IsForbidden(err)).To(gomega.BeTrue(), "%v", err)

	file, err := cluster.ServiceAccountKubeconfig(t.Context(), namespace, meta.Name)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	kubectl, err := testbin.Path("kubectl")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	said, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", file, "auth", "whoami").CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", said)
	g.Expect(string(said)).To(gomega.ContainSubstring("system:serviceaccount:default:reader"))

	_, err = cluster.ServiceAccountConfig(t.Context(), namespace, "absent")
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
}

func TestControlPlanes_ThreeAtOnceWithKeysOfTheirOwn(t *testing.T) {
	g := gomega.NewWithT(t)
	begin := time.Now()
	clusters := testenv.ControlPlanes(t, 3)
	t.Logf("three control planes are ready after %.1f s", time.Since(begin).Seconds())

	keys, resident := map[string]bool{}, 0
	for _, cluster := range clusters {
		issuer, keyID := signer(t, cluster.Config)
		g.Expect(issuer).To(gomega.Equal(testenv.DefaultIssuer))
		keys[keyID] = true
		for server, pid := range cluster.PIDs() {
			rss := residentMiB(t, pid)
			resident += rss
			t.Logf("%s: %d MiB resident", server, rss)
		}
	}
	t.Logf("all: %d MiB resident", resident)
	g.Expect(keys).To(gomega.HaveLen(3), "two control planes sign tokens with one key")
}

// signer returns the issuer and the one key that an API server publishes.
func signer(t *testing.T, config *rest.Config) (issuer, keyID string) {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var discovery struct{ Issuer string }
	var jwks struct {
		Keys []struct{ KID, KTY string }
	}
	for path, into := range map[string]any{"/.well-known/openid-configuration": &discovery, "/openid/v1/jwks": &jwks} {
		request, err := httpClient.Get(config.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(request.Body).Decode(into)
		request.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(jwks.Keys) != 1 || jwks.Keys[0].KTY != "RSA" {
		t.Fatalf("keys: %+v", jwks.Keys)
	}
	return discovery.Issuer, jwks.Keys[0].KID
}

// residentMiB is the memory of a process.
func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no resident memory in %s", status)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

func TestApplyDir_NamespacesFirst(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster := testenv.ControlPlane(t, testenv.WithoutControllers)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: team}\n---\n# nothing\n",
		"kustomization.yaml": "kind: Kustomization\n",
		"z.yaml":             "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n",
	} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(gomega.Succeed())
	}
	for range 2 { // the second time changes nothing
		g.Expect(cluster.ApplyDir(t.Context(), dir)).To(gomega.Succeed())
	}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "a"}, &corev1.ConfigMap{})).To(gomega.Succeed())
	g.Expect(cluster.ApplyDir(t.Context(), filepath.Join(dir, "absent"))).To(gomega.MatchError(gomega.ContainSubstring("no .yaml file")))
}

func TestStart_AServerThatEndsEarlySaysWhy(t *testing.T) {
	cluster, err := testenv.Start(t.Context(), testenv.Options{
		Dir: t.TempDir(), APIServerArgs: []string{"--no-such-flag"},
	})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") || cluster != nil {
		t.Errorf("cluster %v, error %v", cluster, err)
	}
}

func TestStart_AMissingBinaryNamesMakeTestbin(t *testing.T) {
	t.Setenv("DYNAMIC_CONFIG_TESTBIN", t.TempDir())
	t.Setenv("KUBEBUILDER_ASSETS", "")
	_, err := testenv.Start(t.Context(), testenv.Options{})
	if err == nil || !strings.Contains(err.Error(), "make testbin") {
		t.Errorf("error %v", err)
	}
}
