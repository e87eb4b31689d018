package v1alpha1_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func TestDiscovery_ShortNamesAndCategory(t *testing.T) {
	names, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	served, err := names.ServerResourcesForGroupVersion("dynamic-config.rs/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	type resource struct {
		Short      string
		Namespaced bool
	}
	got, status := map[string]resource{}, 0
	for _, r := range served.APIResources {
		if len(r.ShortNames) == 0 {
			status++ // the status subresource has no names of its own
			continue
		}
		if !slices.Equal(r.Categories, []string{"dynamicconfig"}) {
			t.Errorf("%s: categories %v", r.Name, r.Categories)
		}
		got[r.Name] = resource{Short: r.ShortNames[0], Namespaced: r.Namespaced}
	}
	want := map[string]resource{
		"dynamicconfigrenders":        {"dcr", true},
		"dynamicconfigclasses":        {"dcc", true},
		"clusterdynamicconfigclasses": {"cdcc", false},
		"spokeclusters":               {"spc", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if status != len(want) {
		t.Errorf("%d status subresources, want %d", status, len(want))
	}
}

func TestApply_GetReturnsTheSpecAsApplied(t *testing.T) {
	for name, c := range map[string]struct{ kind, spec string }{
		"a smallest Render":           {"DynamicConfigRender", target("configMap: a, file: a.json")},
		"a Render that says no":       {"DynamicConfigRender", with("suspend: false, intervalSeconds: 15, classKind: DynamicConfigClass")},
		"a smallest class":            {"DynamicConfigClass", "{source: kubernetes}"},
		"a class with empty options":  {"DynamicConfigClass", consul("tokenSecret: {name: a}, tls: {}, consul: {}, limits: {}, clusters: {}")},
		"a smallest cluster class":    {"ClusterDynamicConfigClass", "{source: kubernetes, kubernetes: {namespace: a}}"},
		"a cluster class with lists":  {"ClusterDynamicConfigClass", consul("namespaces: [b, a], keys: [b, a], tokenSecret: {name: a, namespace: b}")},
		"a SpokeCluster with no spec": {"SpokeCluster", "{}"},
		"a SpokeCluster that says no": {"SpokeCluster", "{accepted: false, suspend: false}"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			applied := object(t, c.kind, "as-applied", c.spec)
			want := applied.DeepCopy().Object["spec"]
			apply := client.ApplyConfigurationFromUnstructured(applied)
			g.Expect(cluster.Client.Apply(t.Context(), apply, client.FieldOwner("gitops"))).To(gomega.Succeed())
			t.Cleanup(func() { remove(t, applied) })
			got := &unstructured.Unstructured{}
			got.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(c.kind))
			g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(applied), got)).To(gomega.Succeed())
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got.Object["spec"])); diff != "" {
				t.Error(diff)
			}
			if got.GetGeneration() != 1 {
				t.Errorf("generation %d", got.GetGeneration())
			}
		})
	}
}

func TestStatus_IsASubresource(t *testing.T) {
	g := gomega.NewWithT(t)
	o := object(t, "DynamicConfigRender", "status", with("suspend: false"))
	g.Expect(cluster.Client.Create(t.Context(), o)).To(gomega.Succeed())
	t.Cleanup(func() { remove(t, o) })
	key := client.ObjectKeyFromObject(o)
	render := &v1alpha1.DynamicConfigRender{}
	g.Expect(cluster.Client.Get(t.Context(), key, render)).To(gomega.Succeed())

	render.Spec.Suspend = true
	render.Status.LastHandledSync = "smuggled"
	g.Expect(cluster.Client.Update(t.Context(), render)).To(gomega.Succeed())
	g.Expect(render.Spec.Suspend).To(gomega.BeTrue())
	g.Expect(render.Status.LastHandledSync).To(gomega.BeEmpty(), "an update of the spec changed the status")

	render.Spec.Suspend = false
	render.Status.LastHandledSync = "handled"
	render.Status.ObservedGeneration = render.Generation
	g.Expect(cluster.Client.Status().Update(t.Context(), render)).To(gomega.Succeed())
	g.Expect(render.Spec.Suspend).To(gomega.BeTrue(), "an update of the status changed the spec")
	g.Expect(render.Status.LastHandledSync).To(gomega.Equal("handled"))

	stored := o.NewEmptyInstance().(*unstructured.Unstructured)
	stored.SetGroupVersionKind(o.GroupVersionKind())
	g.Expect(cluster.Client.Get(t.Context(), key, stored)).To(gomega.Succeed())
	status := stored.Object["status"].(map[string]any)
	g.Expect(status).To(gomega.HaveKeyWithValue("lastError", gomega.BeNil()), "lastError is null when all is well")
}

func TestStatus_RefusesAConditionThatIsNone(t *testing.T) {
	g := gomega.NewWithT(t)
	o := object(t, "SpokeCluster", "condition", "{}")
	g.Expect(cluster.Client.Create(t.Context(), o)).To(gomega.Succeed())
	t.Cleanup(func() { remove(t, o) })
	spoke := &v1alpha1.SpokeCluster{}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), spoke)).To(gomega.Succeed())
	spoke.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "Perhaps", Reason: "R", LastTransitionTime: metav1.Now()}}
	g.Expect(cluster.Client.Status().Update(t.Context(), spoke)).
		To(gomega.MatchError(gomega.ContainSubstring(`supported values: "True", "False", "Unknown"`)))
}

// remove deletes what a test made.
func remove(t *testing.T, o client.Object) {
	t.Helper()
	// The test's own context has ended when this runs.
	if err := cluster.Client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
		t.Error(err)
	}
}

// asJSON is a value as a decoder of JSON sees it.
func asJSON(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
