package e2e_test

import (
	"os/exec"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testbin"
	"dynamic-config.rs/fleet/internal/testenv"
)

// Whoever waits for an object of ours, by kubectl or by kstatus, learns when it does
// what it is for, and is not told so before.
func TestWait_EachKindIsReadyWhenItIs(t *testing.T) {
	spoke := fleet.Spokes[0]
	create(t, fleet.Hub.Cluster, namespace("wait"))
	create(t, spoke.Cluster, namespace("wait"))
	documents := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "wait", Name: "app"}, Data: map[string]string{"app.json": `{"a":"1"}`},
	}
	own := &v1alpha1.DynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: "wait", Name: "wait"},
		Spec:       v1alpha1.DynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceKubernetes}},
	}
	create(t, fleet.Hub.Cluster, documents, own, clusterClass("wait", "wait"))
	create(t, spoke.Cluster, render("wait", "wait", "configmaps/app/app.json"))

	for resource, at := range map[string]struct {
		cluster   *testenv.Cluster
		namespace string
		name      string
		kind      string
	}{
		"dynamicconfigrender":       {spoke.Cluster, "wait", "render", "DynamicConfigRender"},
		"dynamicconfigclass":        {fleet.Hub.Cluster, "wait", "wait", "DynamicConfigClass"},
		"clusterdynamicconfigclass": {fleet.Hub.Cluster, "", "wait", "ClusterDynamicConfigClass"},
		"spokecluster":              {fleet.Hub.Cluster, "", spoke.Name, "SpokeCluster"},
	} {
		t.Run(at.kind, func(t *testing.T) {
			kubectl(t, at.cluster, "wait", "--namespace="+at.namespace, "--for=condition=Ready", "--timeout=60s", resource+"/"+at.name)
			reads(t, at.cluster, at.kind, client.ObjectKey{Namespace: at.namespace, Name: at.name}, status.CurrentStatus)
		})
	}
	t.Run("a class that cannot be used is not current", func(t *testing.T) {
		create(t, fleet.Hub.Cluster, clusterClass("wait-broken", "wait", func(c *v1alpha1.ClusterDynamicConfigClassSpec) {
			c.Source, c.Endpoint, c.Kubernetes = v1alpha1.SourceConsul, "http://127.0.0.1:1", nil
			c.TokenSecret = &v1alpha1.SecretReference{Namespace: "wait", Name: "none"}
		}))
		kubectl(t, fleet.Hub.Cluster, "wait", "--for=condition=Ready=false", "--timeout=60s", "clusterdynamicconfigclass/wait-broken")
		reads(t, fleet.Hub.Cluster, "ClusterDynamicConfigClass", client.ObjectKey{Name: "wait-broken"}, status.InProgressStatus)
	})
	t.Run("a cluster without an agent is not current", func(t *testing.T) {
		if err := fleet.Hub.Register(t.Context(), "wait-nobody", nil); err != nil {
			t.Fatal(err)
		}
		reads(t, fleet.Hub.Cluster, "SpokeCluster", client.ObjectKey{Name: "wait-nobody"}, status.InProgressStatus)
	})
}

// kubectl runs the real one as an administrator.
func kubectl(t *testing.T, c *testenv.Cluster, args ...string) {
	t.Helper()
	path, err := testbin.Path("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), path, append([]string{"--kubeconfig=" + c.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, said)
	}
}

// reads waits until kstatus reads an object as something.
func reads(t *testing.T, c *testenv.Cluster, kind string, key client.ObjectKey, want status.Status) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		g.Expect(c.Client.Get(t.Context(), key, object)).To(gomega.Succeed())
		got, err := status.Compute(object)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(got.Status).To(gomega.Equal(want), got.Message)
	}).WithTimeout(patience).Should(gomega.Succeed())
}
