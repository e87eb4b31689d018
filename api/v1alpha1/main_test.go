package v1alpha1_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testenv"
)

// cluster is a real API server with the CustomResourceDefinitions installed.
var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { cluster = c }, testenv.WithoutControllers)
}

// namespace holds the namespaced objects of all tests.
const namespace = "default"

// object builds an object from the text of its spec, so that a case can hold
// what a Go type would leave out, such as an empty list.
func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	o.SetName(name)
	if kind == "DynamicConfigRender" || kind == "DynamicConfigClass" {
		o.SetNamespace(namespace)
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict([]byte(spec), &fields); err != nil {
		t.Fatalf("spec of the case: %v", err)
	}
	o.Object["spec"] = fields
	return o
}

// verdict is one case of what the API server accepts.
type verdict struct {
	spec string
	// says is part of the refusal; empty where the spec is accepted.
	says string
}

// checkVerdicts asks the API server about each spec without storing it.
func checkVerdicts(t *testing.T, kind string, cases map[string]verdict) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			checkVerdict(t, object(t, kind, "x", cases[name].spec), cases[name].says)
		})
	}
}

// checkVerdict asks the API server about one object without storing it.
func checkVerdict(t *testing.T, o *unstructured.Unstructured, says string) {
	t.Helper()
	err := cluster.Client.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict"))
	switch {
	case says == "" && err != nil:
		t.Errorf("must be accepted: %v", err)
	case says != "" && err == nil:
		t.Errorf("must be refused with %q", says)
	case says != "" && !strings.Contains(err.Error(), says):
		t.Errorf("must be refused with %q: %v", says, err)
	}
}
