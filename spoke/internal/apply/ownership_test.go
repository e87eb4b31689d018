package apply_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func adopt(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Adopt = true }

func TestApply_AnObjectThatIsNobodysIsRefusedAndAdoptedOnlyWhenAsked(t *testing.T) {
	f := newFixture(t)
	before := f.create()
	r := f.render("pg")
	f.refused(v1alpha1.ReasonTargetNotOwned, r, "id1", "a", "1")
	if after := f.secret("target"); after.ResourceVersion != before.ResourceVersion {
		t.Fatal("a refused target must stay untouched")
	}

	f.update(r, adopt)
	f.written(true, r, "id1", "a", "1")
	f.wantData("a", "1")
	if after := f.secret("target"); after.UID != before.UID {
		t.Error("adopting must not recreate the object")
	}
	f.written(false, r, "id1", "a", "1")
}

// Whoever copies a Secret copies its labels and annotations, and the copy is his.
func TestApply_ACopyOfATargetIsNobodys(t *testing.T) {
	from, f := newFixture(t), newFixture(t)
	from.written(true, from.render("pg"), "id1", "a", "1")
	original := from.secret("target")
	before := f.create(func(s *corev1.Secret) { s.Labels, s.Annotations = original.Labels, original.Annotations })
	r := f.render("pg")
	f.refused(v1alpha1.ReasonTargetNotOwned, r, "id1", "a", "1")
	if after := f.secret("target"); after.ResourceVersion != before.ResourceVersion {
		t.Fatal("a refused target must stay untouched")
	}
	f.update(r, adopt)
	f.written(true, r, "id1", "a", "1")
}

func TestApply_AnotherControllersObjectIsAConflictAlsoWithAdopt(t *testing.T) {
	f := newFixture(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "owner"}}
	f.must(f.client.Create(t.Context(), owner))
	before := f.create(func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: new(true),
		}}
	})
	f.refused(v1alpha1.ReasonTargetConflict, f.render("pg", adopt), "id1", "a", "1")
	if after := f.secret("target"); after.ResourceVersion != before.ResourceVersion {
		t.Fatal("a refused target must stay untouched")
	}
}

func TestApply_KeysLabelsAndAnnotationsOfOthersSurvive(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1", "b", "2")
	f.edit(func(s *corev1.Secret) {
		s.Data["theirs"] = []byte("x")
		s.Labels["team"] = "blue"
		s.Annotations["note"] = "y"
	})
	if got := f.intact(r); got != "id1" {
		t.Errorf("keys of others must not count as drift, got %q", got)
	}
	f.written(true, r, "id2", "a", "3")
	f.wantData("a", "3", "theirs", "x")
	if s := f.secret("target"); s.Labels["team"] != "blue" || s.Annotations["note"] != "y" {
		t.Error("marks of others are gone")
	}
	f.written(false, r, "id2", "a", "3")
}

func TestApply_AKeyOfOthersThatTheDocumentGainsIsAConflict(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1")
	f.edit(func(s *corev1.Secret) { s.Data["b"] = []byte("theirs") })
	refused := f.refused(v1alpha1.ReasonTargetConflict, r, "id2", "a", "1", "b", "ours")
	if !strings.Contains(refused.Message, ".data.b") || !strings.Contains(refused.Message, "kubectl-edit") {
		t.Errorf("the message must name field and manager: %q", refused.Message)
	}
	f.wantData("a", "1", "b", "theirs")
}

func TestApply_AClaimByServerSideApplyIsAConflict(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1")
	claim := corev1ac.Secret("target", f.namespace).WithData(map[string][]byte{"a": []byte("theirs")})
	f.must(f.client.Apply(t.Context(), claim, client.FieldOwner("argocd"), client.ForceOwnership))
	if got := f.intact(r); got != "" {
		t.Errorf("a key taken from us must count as drift, got %q", got)
	}
	f.refused(v1alpha1.ReasonTargetConflict, r, "id1", "a", "1")
	f.wantData("a", "theirs")
}

func TestApply_DriftIsRepairedWithOneWrite(t *testing.T) {
	cases := map[string]func(*corev1.Secret){
		"a value was edited":              func(s *corev1.Secret) { s.Data["a"] = []byte("edited") },
		"every value was edited":          func(s *corev1.Secret) { s.Data["a"], s.Data["b"] = []byte("x"), []byte("y") },
		"a key was removed":               func(s *corev1.Secret) { delete(s.Data, "a") },
		"a value was edited and one gone": func(s *corev1.Secret) { s.Data["a"] = []byte("x"); delete(s.Data, "b") },
		"our labels were removed":         func(s *corev1.Secret) { s.Labels = nil },
		"our annotations were removed":    func(s *corev1.Secret) { s.Annotations = nil; s.Data["a"] = nil },
		"a mark was changed":              func(s *corev1.Secret) { s.Labels[v1alpha1.LabelManagedBy] = "Helm" },
		"the content id was changed":      func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationContentID] = "00" },
		"the owner was removed":           func(s *corev1.Secret) { s.OwnerReferences = nil },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := f.render("pg")
			f.written(true, r, "id1", "a", "1", "b", "2")
			f.edit(damage)
			if got := f.intact(r); got == "id1" {
				t.Error("drift was not seen in the metadata")
			}
			f.written(true, r, "id1", "a", "1", "b", "2")
			f.wantData("a", "1", "b", "2")
			f.written(false, r, "id1", "a", "1", "b", "2")
			if got := f.intact(r); got != "id1" {
				t.Errorf("want the content intact, got %q", got)
			}
		})
	}
}

func TestApply_TheOlderOfTwoRendersKeepsTheTarget(t *testing.T) {
	f := newFixture(t)
	first := f.render("first")
	second := f.render("second")
	// Creation times have whole seconds; within one the UID decides.
	if second.CreationTimestamp.Equal(&first.CreationTimestamp) && second.UID < first.UID {
		first, second = second, first
	}
	f.written(true, second, "id2", "a", "second")
	f.written(true, first, "id1", "a", "first")
	refused := f.refused(v1alpha1.ReasonTargetConflict, second, "id2", "a", "second")
	if !strings.Contains(refused.Message, first.Name) {
		t.Errorf("the message must name the other Render: %q", refused.Message)
	}
	f.wantData("a", "first")
	if refs := f.secret("target").OwnerReferences; len(refs) != 1 || refs[0].UID != first.UID {
		t.Errorf("want the older Render as only owner, got %v", refs)
	}

	f.update(first, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret = "elsewhere" })
	f.written(true, second, "id2", "a", "second")
	f.wantData("a", "second")
}

func TestApply_ATargetThatOutlivedItsRenderIsTakenOver(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg", retain)
	f.written(true, r, "id1", "a", "1", "old", "x")
	f.must(f.client.Delete(t.Context(), r))
	f.written(true, f.render("pg"), "id2", "a", "2")
	f.wantData("a", "2")
}
