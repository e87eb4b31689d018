package apply_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// What becomes of a target that another controller of this API group wrote for the same
// Render: docs/migrate-single-cluster.md.
func TestApply_ATargetOfAnotherControllerOfTheGroup(t *testing.T) {
	t.Run("that the Render controls and that was written by updates is taken up", func(t *testing.T) {
		f := newFixture(t)
		r := f.render("pg")
		made := f.create(func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{renderRef(r)} })
		f.written(true, r, "id1", "a", "ours")
		f.wantData("a", "ours")
		if s := f.secret("target"); s.UID != made.UID || !metav1.IsControlledBy(s, r) {
			t.Errorf("want the same object and owner, got %v", s.OwnerReferences)
		}
	})
	t.Run("that the Render controls and that was applied is a conflict until it is released", func(t *testing.T) {
		f := newFixture(t)
		r := f.render("pg", adopt)
		ref := renderRef(r)
		applied := corev1ac.Secret("target", f.namespace).WithData(map[string][]byte{"a": []byte("theirs")}).
			WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(ref.APIVersion).WithKind(ref.Kind).
				WithName(ref.Name).WithUID(ref.UID).WithController(true))
		f.must(f.client.Apply(t.Context(), applied, client.FieldOwner("predecessor")))
		f.refused(v1alpha1.ReasonTargetConflict, r, "id1", "a", "ours")
		f.wantData("a", "theirs")
		f.edit(func(s *corev1.Secret) { s.OwnerReferences = nil })
		f.written(true, r, "id1", "a", "ours")
		f.wantData("a", "ours")
	})
	t.Run("that nobody controls needs adopt", func(t *testing.T) {
		f := newFixture(t)
		r := f.render("pg")
		f.create(func(s *corev1.Secret) { s.Labels = map[string]string{v1alpha1.LabelManagedBy: "predecessor"} })
		f.refused(v1alpha1.ReasonTargetNotOwned, r, "id1", "a", "ours")
		f.update(r, adopt)
		f.written(true, r, "id1", "a", "ours")
	})
}

// renderRef is a reference to a Render as a controller sets it.
func renderRef(r *v1alpha1.DynamicConfigRender) metav1.OwnerReference {
	return *metav1.NewControllerRef(r, v1alpha1.GroupVersion.WithKind("DynamicConfigRender"))
}
