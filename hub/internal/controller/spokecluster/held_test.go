package spokecluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestHeld_CountsTheSessionsThatAreOpen(t *testing.T) {
	with := func(name, replica string, connected metav1.ConditionStatus) *v1alpha1.SpokeCluster {
		c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if replica != "" {
			c.Status.Session = &v1alpha1.SpokeSession{Hub: replica}
			c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: connected}}
		}
		return c
	}
	hub := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(
		with("a", "hub-0", metav1.ConditionTrue), with("b", "hub-0", metav1.ConditionTrue), with("c", "hub-1", metav1.ConditionTrue),
		with("over", "hub-1", metav1.ConditionFalse), with("never", "", ""),
	).Build()
	got, err := spokecluster.Held(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"hub-0": 2, "hub-1": 1}, got); diff != "" {
		t.Error(diff)
	}
}
