package apply_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testenv"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// canary is a value that must never be seen in a message.
const canary = "canary-8c1f2d"

// noCanary fails when a refusal quotes a value.
func noCanary(t *testing.T, refused *apply.Error) {
	t.Helper()
	if strings.Contains(refused.Error(), canary) {
		t.Errorf("a value is in the message: %q", refused.Error())
	}
}

func TestApply_AnImmutableTargetIsRefused(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1")
	f.edit(func(s *corev1.Secret) { s.Immutable = new(true) })
	noCanary(t, f.refused(v1alpha1.ReasonTargetImmutable, r, "id2", "a", canary))
	f.wantData("a", "1")
}

func TestApply_ASecretOfAnotherTypeIsRefused(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1")
	before := f.secret("target")
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Type = "example.com/other" })
	if got := f.intact(r); got != "" {
		t.Errorf("a changed type must be seen in the metadata, got %q", got)
	}
	noCanary(t, f.refused(v1alpha1.ReasonTargetTypeConflict, r, "id1", "a", canary))
	if f.secret("target").ResourceVersion != before.ResourceVersion {
		t.Error("a refused target must stay untouched")
	}
}

func TestApply_ATypeThatNeedsOtherKeysIsInvalid(t *testing.T) {
	f := newFixture(t)
	r := f.render("tls", func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Type = string(corev1.SecretTypeTLS) })
	refused := f.refused(v1alpha1.ReasonTargetInvalid, r, "id1", "a", canary)
	noCanary(t, refused)
	if !strings.Contains(refused.Message, "tls.crt") {
		t.Errorf("the message must name the field: %q", refused.Message)
	}
}

func TestApply_AnExceededQuotaIsNamed(t *testing.T) {
	f := newFixture(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}},
	}
	f.must(f.client.Create(t.Context(), quota))
	r := f.render("pg")
	gomega.NewWithT(t).Eventually(func() string {
		_, err := f.apply(r, "id1", "a", canary)
		if err == nil {
			f.must(f.client.Delete(t.Context(), f.secret("target")))
			return ""
		}
		return err.Error()
	}, patience).Should(gomega.ContainSubstring(`quota "few" is exceeded`))
	refused := f.refused(v1alpha1.ReasonQuotaExceeded, r, "id1", "a", canary)
	noCanary(t, refused)
	if !refused.Retryable() {
		t.Error("a quota may be raised: it must be tried again")
	}
	f.must(f.client.Delete(t.Context(), quota))
	gomega.NewWithT(t).Eventually(func() error {
		_, err := f.apply(r, "id1", "a", "1")
		return err
	}, patience).Should(gomega.Succeed())
}

func TestApply_AnAdmissionPolicyIsNamed(t *testing.T) {
	f := newFixture(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-secrets-" + f.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: "'it holds ' + string(object.data['a'])"}},
		},
	}
	f.must(f.client.Create(t.Context(), policy))
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	f.must(f.client.Create(t.Context(), binding))

	r := f.render("pg")
	gomega.NewWithT(t).Eventually(func() string {
		_, err := f.apply(r, "id1", "a", canary)
		if err == nil {
			f.must(f.client.Delete(t.Context(), f.secret("target")))
			return ""
		}
		return err.Error()
	}, patience).Should(gomega.ContainSubstring(policy.Name))
	noCanary(t, f.refused(v1alpha1.ReasonAdmissionDenied, r, "id1", "a", canary))
}

func TestApply_WithdrawnRBACIsForbiddenAndComesBack(t *testing.T) {
	f := newFixture(t)
	f.must(f.client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "agent"}}))
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "agent"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
	}
	f.must(f.client.Create(t.Context(), role))
	f.must(f.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "agent"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.namespace, Name: "agent"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "agent"},
	}))
	config, err := cluster.ServiceAccountConfig(t.Context(), f.namespace, "agent")
	f.must(err)
	agent, err := testenv.NewClient(config)
	f.must(err)
	f.applier = &apply.Applier{Client: agent, Targets: agent, Renders: f.client}

	r := f.render("pg")
	refused := f.refused(v1alpha1.ReasonApplyForbidden, r, "id1", "a", canary)
	noCanary(t, refused)
	if !refused.Retryable() {
		t.Error("permissions may come back: it must be tried again")
	}
	role.Rules[0].Verbs = []string{"get", "create", "patch"}
	f.must(f.client.Update(t.Context(), role))
	gomega.NewWithT(t).Eventually(func() error {
		_, err := f.apply(r, "id1", "a", "1")
		return err
	}, patience).Should(gomega.Succeed())
}

func TestApply_ATerminatingNamespaceIsNamed(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	// Something with a finalizer keeps the namespace from going.
	f.must(f.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace, Name: "holds", Finalizers: []string{"example.com/hold"},
	}}))
	f.must(f.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}))
	gomega.NewWithT(t).Eventually(func() string {
		_, err := f.apply(r, "id1", "a", canary)
		if err == nil { // the controller of namespaces may have been faster
			target := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "target"}}
			f.must(client.IgnoreNotFound(f.client.Delete(t.Context(), target)))
		}
		return apply.ReasonOf(err)
	}, patience).Should(gomega.Equal(v1alpha1.ReasonNamespaceTerminating))
	f.must(f.client.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "holds"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}
