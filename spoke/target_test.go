package spoke_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func retain(r *v1alpha1.DynamicConfigRender) {
	r.Spec.Target.DeletionPolicy = v1alpha1.DeletionRetain
}

func into(name string) func(*v1alpha1.DynamicConfigRender) {
	return func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret = name }
}

func TestRun_ATargetEditedOrDeletedByHandIsRestoredWithOneWrite(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1", "b", "2")
	r := f.render("pg")
	f.settled(r, 1)
	rendered := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)

	edited := f.secret("target")
	edited.Data["a"] = []byte("edited")
	f.must(cluster.Client.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
	f.holds("target", "a", "1", "b", "2")
	f.settled(r, 2)

	f.must(cluster.Client.Delete(t.Context(), f.secret("target")))
	f.holds("target", "a", "1", "b", "2")
	f.settled(r, 3)
	if n := len(f.store.Results()); n != 3 {
		t.Errorf("want one delivery a repair, got %d results", n)
	}
	now := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	before := apimeta.FindStatusCondition(rendered.Status.Conditions, v1alpha1.ConditionReady)
	after := apimeta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
	if !before.LastTransitionTime.Equal(&after.LastTransitionTime) {
		t.Error("lastTransitionTime moved without a transition")
	}
}

func TestRun_OwnershipAndNameFollowTheSpecOnAQuietDocument(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)

	f.update(r, retain)
	f.Eventually(func() []metav1.OwnerReference { return f.secret("target").OwnerReferences }).Should(gomega.BeEmpty())
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.DeletionPolicy = v1alpha1.DeletionDelete })
	f.Eventually(func() bool { return metav1.IsControlledBy(f.secret("target"), r) }).Should(gomega.BeTrue())

	f.update(r, into("renamed"))
	f.holds("renamed", "a", "1")
	f.Eventually(func() *corev1.Secret { return f.secret("target") }).Should(gomega.BeNil())

	f.update(r, func(r *v1alpha1.DynamicConfigRender) {
		r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "renamed"
		r.Spec.Target.DeletionPolicy = v1alpha1.DeletionRetain
	})
	key := client.ObjectKey{Namespace: f.namespace, Name: "renamed"}
	f.Eventually(func() error { return cluster.Client.Get(t.Context(), key, &corev1.ConfigMap{}) }).Should(gomega.Succeed())
	f.Eventually(func() map[string]string { return f.secret("renamed").Labels }).Should(gomega.BeEmpty())
	f.holds("renamed", "a", "1")
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

func TestRun_WhatIsDeletedWhileTheAgentIsDownIsCollected(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	stays := f.render("stays", retain, into("stays"))
	f.settled(r, 2)
	f.settled(stays, 2)
	f.stop()
	f.must(cluster.Client.Delete(t.Context(), r))
	f.must(cluster.Client.Delete(t.Context(), stays))
	f.Eventually(func() *corev1.Secret { return f.secret("target") }).Should(gomega.BeNil())
	if f.secret("stays") == nil {
		t.Error("a retained target went")
	}
	f.must(cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}))
	f.Eventually(func() bool {
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: f.namespace}, &corev1.Namespace{})
		return apierrors.IsNotFound(err)
	}).Should(gomega.BeTrue())
}

func TestRun_ADeletedRenderIsForgottenByTheHub(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	f.must(cluster.Client.Delete(t.Context(), r))
	f.Eventually(func() bool { return f.store.Spec(f.namespace, "pg") == nil }).Should(gomega.BeTrue())
	f.Eventually(func() *corev1.Secret { return f.secret("target") }).Should(gomega.BeNil())
}

func TestRun_ALosingRenderGetsTheTargetWhenTheWinnerLetsGo(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	f.store.Set("doc2", "a", "2")
	winner := f.render("first")
	f.settled(winner, 1)
	loser := f.render("second", func(r *v1alpha1.DynamicConfigRender) { r.Spec.Key = "doc2" })
	if loser.CreationTimestamp.Equal(&winner.CreationTimestamp) && loser.UID < winner.UID {
		winner, loser = loser, winner
	}
	conflict := f.status(loser, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetConflict)
	if !strings.Contains(*conflict.Status.LastError, winner.Name) {
		t.Errorf("want the winner named: %s", *conflict.Status.LastError)
	}
	f.status(winner, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	f.update(winner, into("elsewhere"))
	f.status(loser, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	f.status(winner, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

func TestRun_AForeignTargetIsRefusedWithoutAStormAndAdoptedWhenAsked(t *testing.T) {
	f := newFixture(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "target"}, Data: map[string][]byte{"a": []byte("theirs")},
	}
	f.must(cluster.Client.Create(t.Context(), foreign))
	f.store.Set("doc", "a", "1")
	began := time.Now()
	r := f.render("pg")
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetNotOwned)
	other := f.render("other", into("other"))
	f.status(other, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if now := f.secret("target"); now.ResourceVersion != foreign.ResourceVersion {
		t.Error("a refused target was touched")
	}
	// It is looked at again after a quarter of a minute at the earliest.
	if n := f.store.Delivered(); n > 2+int(time.Since(began)/(15*time.Second)) {
		t.Errorf("want one delivery for each Render, got %d within %s", n, time.Since(began))
	}
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Adopt = true })
	if now := f.holds("target", "a", "1"); now.UID != foreign.UID {
		t.Error("the target was made anew")
	}
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

func TestRun_AnExceededQuotaIsReportedAndRecoversByItself(t *testing.T) {
	f := newFixture(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}},
	}
	f.must(cluster.Client.Create(t.Context(), quota))
	f.Eventually(func() bool { // the admission plugin has a cache of its own
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: "probe-"}}
		return apierrors.IsForbidden(cluster.Client.Create(t.Context(), probe))
	}).Should(gomega.BeTrue())

	f.store.Set("doc", "a", "1")
	r := f.render("app", func(r *v1alpha1.DynamicConfigRender) {
		r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "target"
	})
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonQuotaExceeded)
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRenderFailed)
	f.must(cluster.Client.Delete(t.Context(), quota))
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

func TestRun_AMutatedTargetIsNotAppliedForEver(t *testing.T) {
	f := newFixture(t)
	f.mutate(`[
		JSONPatch{op: "add", path: "/data/a", value: "mutated"},
		JSONPatch{op: "add", path: "/metadata/annotations", value: {"only": "this"}}]`,
		func(probe *corev1.ConfigMap) bool { return probe.Data["a"] == "mutated" })
	f.store.Set("doc", "a", "1")
	r := f.render("app", func(r *v1alpha1.DynamicConfigRender) {
		r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "target"
	})
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	written := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: f.namespace, Name: "target"}
	f.must(cluster.Client.Get(t.Context(), key, written))
	if written.Data["a"] != "mutated" || len(written.Annotations) != 1 {
		t.Fatalf("the policy did not mutate: %v", written.Data)
	}
	// Ten other Renders later, nothing more was asked for this one.
	for i := range 10 {
		name := "other-" + string(rune('a'+i))
		other := f.render(name, into(name))
		f.status(other, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	}
	if n := f.store.Delivered(); n != 11 {
		t.Errorf("want one delivery for each Render, got %d for 11", n)
	}
}
