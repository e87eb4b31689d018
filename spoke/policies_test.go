package spoke_test

import (
	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// mutate has the API server change every ConfigMap of the namespace, and waits until it
// does.
func (f *fixture) mutate(patch string, done func(*corev1.ConfigMap) bool) {
	f.Helper()
	name := "mutate-" + f.namespace
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints:   f.matching("configmaps"),
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: patch},
			}},
		},
	}
	f.must(cluster.Client.Create(f.Context(), policy))
	f.must(cluster.Client.Create(f.Context(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}))
	f.Eventually(func(g gomega.Gomega) {
		probe := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: f.namespace, GenerateName: "probe-", Labels: map[string]string{v1alpha1.LabelManagedBy: "probe"},
			},
			Data: map[string]string{"b": "2"},
		}
		g.Expect(cluster.Client.Create(f.Context(), probe)).To(gomega.Succeed())
		g.Expect(done(probe)).To(gomega.BeTrue())
	}).Should(gomega.Succeed())
}

// deny has the API server deny every write of a Secret in the namespace, with a message
// that quotes its key a, until what it returns is called.
func (f *fixture) deny() (lift func()) {
	f.Helper()
	name := "deny-" + f.namespace
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: f.matching("secrets"),
			Validations:      []admissionv1.Validation{{Expression: "false", MessageExpression: "'it holds ' + string(object.data['a'])"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	f.must(cluster.Client.Create(f.Context(), policy))
	f.must(cluster.Client.Create(f.Context(), binding))
	f.Eventually(func() bool {
		probe := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: "probe-"}, Data: map[string][]byte{"a": []byte("x")},
		}
		return apierrors.IsInvalid(cluster.Client.Create(f.Context(), probe))
	}).Should(gomega.BeTrue())
	return func() { f.must(cluster.Client.Delete(f.Context(), binding)) }
}

// matching are the writes of a resource in the namespace.
func (f *fixture) matching(resource string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.namespace}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}}},
	}
}
