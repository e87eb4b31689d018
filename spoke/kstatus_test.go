package spoke_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// reads waits until kstatus, which Flux and others judge objects with, reads a Render
// as something.
func (f *fixture) reads(r *v1alpha1.DynamicConfigRender, want status.Status) {
	f.Helper()
	f.Eventually(func(g gomega.Gomega) {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DynamicConfigRender"))
		g.Expect(cluster.Client.Get(f.Context(), client.ObjectKeyFromObject(r), now)).To(gomega.Succeed())
		got, err := status.Compute(now)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(got.Status).To(gomega.Equal(want), got.Message)
	}).Should(gomega.Succeed())
}

func TestRun_KstatusReadsARenderAsItIs(t *testing.T) {
	f := newFixture(t)
	f.stop()
	r := f.render("pg")
	f.reads(r, status.InProgressStatus) // nobody has seen it
	f.start()
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonPending)
	f.reads(r, status.InProgressStatus)

	f.store.Set("doc", "a", "1")
	f.reads(r, status.CurrentStatus)
	f.kubectl("wait", "--namespace", f.namespace, "--for=condition=Ready", "--timeout=30s", "dynamicconfigrender/pg")

	f.store.Refuse("doc", &fleetv1.Refusal{
		ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched,
		CauseReason: v1alpha1.ReasonStoreUnreachable, Message: "the store is away",
	})
	f.status(r, v1alpha1.ConditionFetched, v1alpha1.ReasonStoreUnreachable)
	f.reads(r, status.InProgressStatus) // it may pass by itself
	f.kubectl("wait", "--namespace", f.namespace, "--for=condition=Ready=false", "--timeout=30s", "dynamicconfigrender/pg")

	f.store.Set("doc", "a", "2")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "foreign"}}
	f.must(cluster.Client.Create(t.Context(), foreign))
	f.update(r, into("foreign"))
	f.status(r, v1alpha1.ConditionStalled, v1alpha1.ReasonTargetNotOwned)
	f.reads(r, status.FailedStatus) // somebody has to decide

	f.update(r, into("target"))
	f.reads(r, status.CurrentStatus)
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Suspend = true })
	f.reads(r, status.CurrentStatus) // it is what was asked for
}
