package spoke_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func TestRun_ARenderIsPendingUntilTheHubAnswersAndThenRendered(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	pending := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonPending)
	if pending.Status.LastError != nil || pending.Status.RenderedAt != nil {
		t.Errorf("unexpected status %+v", pending.Status)
	}

	f.store.Set("doc", "a", "1", "b", "2")
	secret := f.holds("target", "a", "1", "b", "2")
	if !metav1.IsControlledBy(secret, r) || secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("unexpected secret: %v %s", secret.OwnerReferences, secret.Type)
	}
	done := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonFetched)
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
	if done.Status.RenderedAt == nil || done.Status.LastError != nil || done.Status.ObservedGeneration != done.Generation {
		t.Errorf("unexpected status %+v", done.Status)
	}
	f.Eventually(f.store.Results).ShouldNot(gomega.BeEmpty())
	result := f.store.Results()[0]
	if result.GetCode() != fleetv1.DeliveryResult_CODE_APPLIED || len(result.GetContentId()) == 0 {
		t.Errorf("unexpected result %v", result)
	}
}

func TestRun_AnUnchangedDocumentIsNeitherSentNorWrittenAgain(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	target, status := f.holds("target", "a", "1"), f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	delivered := f.store.Delivered()

	f.hub.Restart(t)
	f.Eventually(func() *fleetv1.RenderSpec { return f.store.Spec(f.namespace, "pg") }).ShouldNot(gomega.BeNil())
	f.stop()
	f.start()
	f.store.Set("other", "x", "y")
	other := f.render("other", func(r *v1alpha1.DynamicConfigRender) { r.Spec.Key, r.Spec.Target.Secret = "other", "other" })
	f.status(other, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	f.store.Set("doc", "a", "1")
	f.update(r, func(r *v1alpha1.DynamicConfigRender) {
		r.Annotations = map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"}
	})
	f.Eventually(func() string {
		return f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered).Status.LastHandledSync
	}).Should(gomega.Equal("now"))

	if n := f.store.Delivered(); n != delivered+1 { // the one of "other"
		t.Errorf("want no document sent again, got %d more", n-delivered-1)
	}
	if now := f.secret("target"); now.ResourceVersion != target.ResourceVersion {
		t.Error("the target was written again")
	}
	now := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if diff := cmp.Diff(status.Status.Conditions, now.Status.Conditions); diff != "" {
		t.Errorf("conditions moved: %s", diff)
	}
	if !status.Status.RenderedAt.Equal(now.Status.RenderedAt) {
		t.Error("renderedAt moved")
	}
}

func TestRun_ARefusalKeepsTheTargetAndSaysWhy(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	before := f.secret("target")

	f.store.Refuse("doc", &fleetv1.Refusal{
		ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched,
		CauseReason: v1alpha1.ReasonStoreUnreachable, Message: "consul at https://consul.infra:8501 does not answer",
	})
	failed := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRenderFailed)
	f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonStoreUnreachable)
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
	if failed.Status.LastError == nil || !strings.Contains(*failed.Status.LastError, "consul.infra") {
		t.Errorf("unexpected lastError %v", failed.Status.LastError)
	}

	f.store.Refuse("doc", &fleetv1.Refusal{ReadyReason: v1alpha1.ReasonClassNotAllowed, Message: `class "store" does not serve this`})
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonClassNotAllowed)
	if now := f.secret("target"); now.ResourceVersion != before.ResourceVersion {
		t.Error("a refusal touched the target")
	}

	f.store.Set("doc", "a", "1")
	good := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if good.Status.LastError != nil || !good.Status.RenderedAt.Equal(failed.Status.RenderedAt) {
		t.Errorf("unexpected status %+v", good.Status)
	}
	f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonFetched)
}

func TestRun_ASuspendedRenderIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Suspend = true })
	f.Eventually(func() bool { return f.store.Spec(f.namespace, "pg").GetSuspend() }).Should(gomega.BeTrue())
	held := f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonSuspended)
	if ready := apimeta.FindStatusCondition(held.Status.Conditions, v1alpha1.ConditionReady); ready.Reason != v1alpha1.ReasonRendered || held.Status.ObservedGeneration != held.Generation {
		t.Errorf("a suspended Render says %+v of generation %d, is at %d", ready, held.Status.ObservedGeneration, held.Generation)
	}
	f.store.Set("doc", "a", "2")
	f.must(cluster.Client.Delete(t.Context(), f.secret("target")))
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Suspend = false })
	f.holds("target", "a", "2")
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonFetched)
}

func TestRun_ARenderSuspendedBeforeItsFirstAnswerSaysSo(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg", func(r *v1alpha1.DynamicConfigRender) { r.Spec.Suspend = true })
	f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonSuspended)
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonPending)
}

func TestRun_ASpecAppliedByAGitOpsToolStaysWhatWasApplied(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "DynamicConfigRender",
		"metadata": map[string]any{
			"namespace": f.namespace, "name": "pg", "annotations": map[string]any{corev1.LastAppliedConfigAnnotation: "{}", "team": "blue"},
		},
		"spec": map[string]any{
			"class": "store", "key": "doc", "target": map[string]any{"secret": "target", "shape": "entries"},
		},
	}}
	want := applied.DeepCopy()
	f.must(cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("argocd")))
	r := &v1alpha1.DynamicConfigRender{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pg"}}
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)

	now := want.DeepCopy()
	f.must(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(r), now))
	if diff := cmp.Diff(want.Object["spec"], now.Object["spec"]); diff != "" {
		t.Errorf("the spec is not what was applied: %s", diff)
	}
	if diff := cmp.Diff(want.GetAnnotations(), now.GetAnnotations()); diff != "" {
		t.Errorf("the annotations are not what was applied: %s", diff)
	}
	for _, entry := range now.GetManagedFields() {
		if entry.Manager != "argocd" && (entry.Subresource != "status" || strings.Contains(entry.FieldsV1.GetRawString(), "f:spec")) {
			t.Errorf("%s wrote more than the status", entry.Manager)
		}
	}
	if len(now.GetFinalizers()) != 0 {
		t.Error("there is a finalizer")
	}
}

func TestRun_NoValueIsInLogsStatusOrEvents(t *testing.T) {
	const canary = "canary-51f0aa"
	f := newFixture(t)
	f.store.Set("doc", "a", canary)
	r := f.render("pg")
	f.settled(r, 1)
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Type = "example.com/other" })
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetTypeConflict)
	f.update(r, func(r *v1alpha1.DynamicConfigRender) {
		r.Spec.Target.Secret, r.Spec.Target.Type = "tls", string(corev1.SecretTypeTLS)
	})
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetInvalid)
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Type = "" })
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)

	var events eventsv1.EventList
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.List(t.Context(), &events, client.InNamespace(f.namespace))).To(gomega.Succeed())
		g.Expect(len(events.Items)).To(gomega.BeNumerically(">=", 3))
	}).Should(gomega.Succeed())
	reasons := map[string]int{}
	for _, event := range events.Items {
		reasons[event.Reason]++
	}
	if reasons[v1alpha1.ReasonRendered] != 1 || reasons[v1alpha1.ReasonTargetTypeConflict] != 1 {
		t.Errorf("want one event a change, got %v", reasons)
	}
	status, err := json.Marshal(f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered))
	f.must(err)
	told, err := json.Marshal(events.Items)
	f.must(err)
	results, err := json.Marshal(f.store.Results())
	f.must(err)
	for _, line := range []string{"Enrolled", "Session established", "Target written", "Target not written"} {
		if !strings.Contains(f.logs.String(), line) {
			t.Errorf("the log has no line %q", line)
		}
	}
	for place, text := range map[string]string{
		"logs": f.logs.String(), "status": string(status), "events": string(told), "results": string(results),
	} {
		if strings.Contains(text, canary) {
			t.Errorf("a value is in the %s", place)
		}
	}
}
