package e2e_test

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

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

// aDay is an interval that no test waits for.
const aDay = 24 * 60 * 60

func create(t *testing.T, c *testenv.Cluster, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// remove deletes objects when a test is over.
func remove(t *testing.T, c *testenv.Cluster, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		// A cleanup runs when the test's context is over.
		if err := c.Client.Delete(context.WithoutCancel(t.Context()), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
}

// namespaces makes a namespace in every spoke.
func namespaces(t *testing.T, name string) {
	t.Helper()
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, namespace(name))
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// clusterClass is a class of source kubernetes, unless changed.
func clusterClass(name, documents string, change ...func(*v1alpha1.ClusterDynamicConfigClassSpec)) *v1alpha1.ClusterDynamicConfigClass {
	class := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceKubernetes},
			Kubernetes:  &v1alpha1.KubernetesOptions{Namespace: documents},
		},
	}
	for _, f := range change {
		f(&class.Spec)
	}
	return class
}

// render asks a cluster class for a document as the Secret "target", shape entries,
// at an interval that never comes.
func render(namespace, class, key string) *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "render"},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: class, ClassKind: v1alpha1.ClassKindCluster, Key: key, IntervalSeconds: ptr.To[int32](aDay),
			Target: v1alpha1.RenderTarget{Secret: "target", Shape: v1alpha1.ShapeEntries},
		},
	}
}

// target is the Secret of a namespace in a spoke.
func target(ctx context.Context, spoke *stage.Spoke, namespace string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := spoke.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "target"}, secret)
	return secret, err
}

// holds waits until the target of a namespace holds a value under a key, and
// returns it.
func holds(t *testing.T, spoke *stage.Spoke, namespace, key, value string) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		var err error
		secret, err = target(t.Context(), spoke, namespace)
		g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", explain(t.Context(), spoke, namespace))
		g.Expect(string(secret.Data[key])).To(gomega.Equal(value), "%s", explain(t.Context(), spoke, namespace))
	}).WithTimeout(patience).Should(gomega.Succeed(), "in %s", spoke.Name)
	return secret
}

// isReady waits until the Render of a namespace has a Ready condition of a reason.
func isReady(t *testing.T, spoke *stage.Spoke, namespace string, status metav1.ConditionStatus, reason string) *v1alpha1.DynamicConfigRender {
	t.Helper()
	r := &v1alpha1.DynamicConfigRender{}
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		g.Expect(spoke.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "render"}, r)).To(gomega.Succeed())
		ready := apimeta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
		g.Expect(ready).NotTo(gomega.BeNil())
		g.Expect(ready.Reason).To(gomega.Equal(reason), "%s", ready.Message)
		g.Expect(ready.Status).To(gomega.Equal(status))
		g.Expect(ready.ObservedGeneration).To(gomega.Equal(r.Generation))
	}).WithTimeout(patience).Should(gomega.Succeed(), "in %s", spoke.Name)
	return r
}

// isGone waits until the target of a namespace is gone.
func isGone(t *testing.T, spoke *stage.Spoke, namespace string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		_, err := target(t.Context(), spoke, namespace)
		return apierrors.IsNotFound(err)
	}).WithTimeout(patience).Should(gomega.BeTrue(), "in %s", spoke.Name)
}

// explain says what the Render of a namespace says of itself.
func explain(ctx context.Context, spoke *stage.Spoke, namespace string) string {
	r := &v1alpha1.DynamicConfigRender{}
	if err := spoke.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "render"}, r); err != nil {
		return err.Error()
	}
	text := ""
	for _, c := range r.Status.Conditions {
		text += c.Type + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message + "\n"
	}
	return text
}

func keyOf(ref *v1alpha1.SecretReference) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// update changes an object, again when somebody else did meanwhile.
func update[T client.Object](t *testing.T, c *testenv.Cluster, object T, change func(T)) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.Client.Update(t.Context(), object)
	}).WithTimeout(patience).Should(gomega.Succeed())
}

// metric is a counter of a replica.
func metric(t *testing.T, r *stage.Replica, name string) int {
	t.Helper()
	return metricAt(t, http.DefaultClient, r.MetricsURL, name)
}

// metricAt is a counter of the process that serves it at a URL.
func metricAt(t *testing.T, by *http.Client, url, name string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := by.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(v)
		}
	}
	t.Fatalf("%s has no metric %s", url, name)
	return 0
}
