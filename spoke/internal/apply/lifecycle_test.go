package apply_test

import (
	"bytes"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

func retain(r *v1alpha1.DynamicConfigRender) {
	r.Spec.Target.DeletionPolicy = v1alpha1.DeletionRetain
}

func TestApply_AKeyThatVanishesFromTheDocumentVanishesFromTheTarget(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1", "b", "2")
	f.written(true, r, "id2", "a", "1")
	f.wantData("a", "1")
	f.written(false, r, "id2", "a", "1")
}

func TestApply_AConfigMapHoldsTextAndBinaryApart(t *testing.T) {
	f := newFixture(t)
	r := f.render("app", func(r *v1alpha1.DynamicConfigRender) {
		r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "target"
	})
	f.written(true, r, "id1", "text", "grüße", "binary", "\xff\xfe")
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: f.namespace, Name: "target"}
	f.must(f.client.Get(t.Context(), key, configMap))
	if configMap.Data["text"] != "grüße" || !bytes.Equal(configMap.BinaryData["binary"], []byte("\xff\xfe")) {
		t.Errorf("bytes changed: %v %v", configMap.Data, configMap.BinaryData)
	}
	f.written(false, r, "id1", "text", "grüße", "binary", "\xff\xfe")
	f.written(true, r, "id2", "text", "\xff", "binary", "text now")
	if got := f.intact(r); got != "id2" {
		t.Errorf("want the content intact, got %q", got)
	}
}

func TestApply_OwnershipFollowsTheDeletionPolicyOnAQuietDocument(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1")
	f.update(r, retain)
	if got := f.intact(r); got != "" {
		t.Errorf("a changed policy must ask for the content again, got %q", got)
	}
	f.written(true, r, "id1", "a", "1")
	if refs := f.secret("target").OwnerReferences; len(refs) != 0 {
		t.Errorf("want no owner under Retain, got %v", refs)
	}
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.DeletionPolicy = v1alpha1.DeletionDelete })
	f.written(true, r, "id1", "a", "1")
	if s := f.secret("target"); !metav1.IsControlledBy(s, r) {
		t.Errorf("want the Render as owner under Delete, got %v", s.OwnerReferences)
	}
}

func TestApply_TheGarbageCollectorTakesTheTargetUnderDeleteOnly(t *testing.T) {
	f := newFixture(t)
	g := gomega.NewWithT(t)
	goes := f.render("goes")
	stays := f.render("stays", retain, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret = "stays" })
	f.written(true, goes, "id1", "a", "1")
	f.written(true, stays, "id1", "a", "1")
	f.must(f.client.Delete(t.Context(), stays))
	f.must(f.client.Delete(t.Context(), goes))
	g.Eventually(func() bool {
		err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "target"}, &corev1.Secret{})
		return apierrors.IsNotFound(err)
	}, patience).Should(gomega.BeTrue())
	f.secret("stays")
}

func TestRelease(t *testing.T) {
	cases := map[string]struct {
		change   func(*v1alpha1.DynamicConfigRender)
		wantGone bool
	}{
		"under Delete the former target goes":           {change: func(*v1alpha1.DynamicConfigRender) {}, wantGone: true},
		"under Retain it stays with its data, unmarked": {change: retain},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := f.render("pg", tc.change)
			f.written(true, r, "id1", "a", "1")
			f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret = "renamed" })
			f.written(true, r, "id1", "a", "1")
			for range 2 { // the second finds nothing to do
				f.must(f.applier.Release(t.Context(), r, "Secret", "target"))
			}
			old := &corev1.Secret{}
			err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "target"}, old)
			if tc.wantGone {
				if !apierrors.IsNotFound(err) {
					t.Fatalf("want the former target gone, got %v", err)
				}
				return
			}
			f.must(err)
			f.wantData("a", "1")
			if len(old.Labels)+len(old.Annotations)+len(old.OwnerReferences) != 0 {
				t.Errorf("marks are left: %v %v %v", old.Labels, old.Annotations, old.OwnerReferences)
			}
			f.refused(v1alpha1.ReasonTargetNotOwned, f.render("other"), "id9", "a", "2")
		})
	}
}

func TestApply_LargeContent(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	many := make(map[string][]byte)
	for i := range 5000 {
		many[string([]byte{'k', byte('a' + i/676%26), byte('a' + i/26%26), byte('a' + i%26)})] = []byte("v")
	}
	result, err := f.applier.Apply(t.Context(), apply.Desired{Render: r, ContentID: []byte("many"), Data: many})
	f.must(err)
	if !result.Written || f.intact(r) != "many" {
		t.Error("5,000 keys must be written and read as intact")
	}
	f.written(true, r, "big", "a", string(bytes.Repeat([]byte("x"), 1_000_000)))
	f.refused(v1alpha1.ReasonDocumentTooLarge, r, "huge", "a", string(bytes.Repeat([]byte("x"), 1<<20+1)))
	if got := f.intact(r); got != "big" {
		t.Errorf("the last good content must stay, got %q", got)
	}
}
