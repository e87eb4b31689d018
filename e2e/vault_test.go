package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// vaultClass makes a class that logs in to a Vault with an AppRole, which may read
// documents below a path of secret/.
func vaultClass(t *testing.T, vault *testenv.VaultServer, name, below string) {
	t.Helper()
	const rules = "path \"secret/data/%[1]s*\" { capabilities = [\"read\"] }\npath \"secret/metadata/%[1]s*\" { capabilities = [\"read\"] }"
	callVault(t, vault, http.MethodPut, "sys/policies/acl/"+name, map[string]string{"policy": fmt.Sprintf(rules, below)}, nil)
	callVault(t, vault, http.MethodPost, "auth/approle/role/"+name, map[string]string{"token_policies": name, "token_ttl": "1h"}, nil)
	var role struct {
		RoleID string `json:"role_id"`
	}
	callVault(t, vault, http.MethodGet, "auth/approle/role/"+name+"/role-id", nil, &role)
	var secret struct {
		SecretID string `json:"secret_id"`
	}
	callVault(t, vault, http.MethodPost, "auth/approle/role/"+name+"/secret-id", nil, &secret)
	credential := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		StringData: map[string]string{"token": secret.SecretID},
	}
	class := clusterClass(name, "", func(s *v1alpha1.ClusterDynamicConfigClassSpec) {
		s.Source, s.Kubernetes, s.Endpoint = v1alpha1.SourceVault, nil, vault.Addr
		s.TokenSecret = &v1alpha1.SecretReference{Namespace: credential.Namespace, Name: credential.Name}
		s.Vault = &v1alpha1.VaultOptions{Auth: &v1alpha1.VaultAuth{AppRole: &v1alpha1.VaultAppRoleAuth{RoleID: role.RoleID}}}
	})
	create(t, fleet.Hub.Cluster, credential, class)
	// The class goes with the test: its store does.
	t.Cleanup(func() { deleteAll(t, class, credential) })
}

func callVault(t *testing.T, vault *testenv.VaultServer, method, path string, body, answer any) {
	t.Helper()
	if err := vault.Call(t.Context(), method, path, body, answer); err != nil {
		t.Fatal(err)
	}
}

func putVault(t *testing.T, vault *testenv.VaultServer, path, colour string) {
	t.Helper()
	callVault(t, vault, http.MethodPost, "secret/data/"+path, map[string]any{"data": map[string]string{"colour": colour}}, nil)
}

// isBecause waits until a condition of the Render of a namespace has a reason.
func isBecause(t *testing.T, spoke *stage.Spoke, namespace, condition, reason string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		r := &v1alpha1.DynamicConfigRender{}
		g.Expect(spoke.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "render"}, r)).To(gomega.Succeed())
		cause := apimeta.FindStatusCondition(r.Status.Conditions, condition)
		g.Expect(cause).NotTo(gomega.BeNil())
		g.Expect(cause.Reason).To(gomega.Equal(reason), "%s", explain(t.Context(), spoke, namespace))
	}).WithTimeout(patience).Should(gomega.Succeed(), "in %s", spoke.Name)
}

// everySecond is a Render that is polled once a second: nothing watches Vault.
func everySecond(namespace, class, key string) *v1alpha1.DynamicConfigRender {
	r := render(namespace, class, key)
	r.Spec.IntervalSeconds = ptr.To[int32](1)
	return r
}

func TestVault_ADocumentBecomesASecretEverywhereAndFollows(t *testing.T) {
	vault := startVault(t)
	putVault(t, vault, "follow/app", "red")
	vaultClass(t, vault, "vault-follow", "follow/")
	namespaces(t, "vault-follow")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, everySecond("vault-follow", "vault-follow", "secret/follow/app"))
	}
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "vault-follow", "colour", "red")
		isReady(t, spoke, "vault-follow", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	}
	began := time.Now()
	putVault(t, vault, "follow/app", "blue")
	written := map[string]string{}
	for _, spoke := range fleet.Spokes {
		written[spoke.Name] = holds(t, spoke, "vault-follow", "colour", "blue").ResourceVersion
	}
	t.Logf("a change in Vault was in both spokes after %d ms; the interval is a second", time.Since(began).Milliseconds())

	callVault(t, vault, http.MethodDelete, "secret/data/follow/app", nil, nil)
	for _, spoke := range fleet.Spokes {
		isBecause(t, spoke, "vault-follow", v1alpha1.ConditionFetched, v1alpha1.ReasonDocumentDeleted)
		isReady(t, spoke, "vault-follow", metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
		// A deletion in Vault deletes nothing.
		if got := holds(t, spoke, "vault-follow", "colour", "blue").ResourceVersion; got != written[spoke.Name] {
			t.Errorf("%s: the target was written again", spoke.Name)
		}
	}
	putVault(t, vault, "follow/app", "green")
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "vault-follow", "colour", "green")
		isReady(t, spoke, "vault-follow", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	}
}

func TestVault_ADocumentNeverGoesIntoAConfigMap(t *testing.T) {
	vault := startVault(t)
	putVault(t, vault, "downgrade/app", "red")
	vaultClass(t, vault, "vault-downgrade", "downgrade/")
	namespaces(t, "vault-downgrade")
	for _, spoke := range fleet.Spokes {
		r := everySecond("vault-downgrade", "vault-downgrade", "secret/downgrade/app")
		r.Spec.Target = v1alpha1.RenderTarget{ConfigMap: "target", Shape: v1alpha1.ShapeEntries}
		create(t, spoke.Cluster, r)
	}
	for _, spoke := range fleet.Spokes {
		isBecause(t, spoke, "vault-downgrade", v1alpha1.ConditionApplied, v1alpha1.ReasonSecrecyDowngrade)
		isReady(t, spoke, "vault-downgrade", metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
		target := client.ObjectKey{Namespace: "vault-downgrade", Name: "target"}
		for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
			if err := spoke.Client.Get(t.Context(), target, object); !apierrors.IsNotFound(err) {
				t.Errorf("%s: %T was written: %v", spoke.Name, object, err)
			}
		}
	}
}
