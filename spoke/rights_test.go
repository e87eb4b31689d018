package spoke_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testbin"
)

const (
	system  = "dynamic-config-system"
	account = "dynamic-config-spoke"
	// tenantRole is the Role that an administrator binds in each watched namespace.
	tenantRole = "dynamic-config-spoke-tenant"
)

// kubectl applies a kustomization as the documentation says.
func (f *fixture) kubectl(args ...string) {
	f.Helper()
	path, err := testbin.Path("kubectl")
	f.must(err)
	said, err := exec.CommandContext(f.Context(), path, append([]string{"--kubeconfig", cluster.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		f.Fatalf("kubectl %v: %v\n%s", args, err, said)
	}
}

// namespaced gives the agent the rights of its ServiceAccount, in the fixture's
// namespace alone.
func namespaced(f *fixture) {
	const kustomize = "../deploy/kustomize/spoke-namespaced"
	f.kubectl("apply", "--server-side", "--kustomize", kustomize)
	f.kubectl("apply", "--server-side", "--namespace", f.namespace, "--kustomize", kustomize+"/tenant")
	// The authorizer reads roles from a watch, which lags behind the apply.
	f.Eventually(func() bool { return f.may("list", "secrets", f.namespace) && f.may("create", "secrets", system) }).Should(gomega.BeTrue())
	config, err := cluster.ServiceAccountConfig(f.Context(), system, account)
	f.must(err)
	f.config.REST, f.config.Namespace = config, system
	identity := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "dynamic-config-spoke-identity"}}
	f.must(client.IgnoreNotFound(cluster.Client.Delete(f.Context(), identity)))
}

// may says whether the agent's ServiceAccount may do something; an empty namespace is
// the whole cluster.
func (f *fixture) may(verb, resource, namespace string) bool {
	f.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + system + ":" + account,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace},
	}}
	f.must(cluster.Client.Create(f.Context(), review))
	return review.Status.Allowed
}

func TestRun_WorksForSomeNamespacesWithoutARightOnTheCluster(t *testing.T) {
	f := newFixture(t, namespaced)
	f.store.Set("doc", "a", "1")
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	f.must(cluster.Client.Create(t.Context(), elsewhere))
	unseen := f.render("unseen", func(r *v1alpha1.DynamicConfigRender) { r.Namespace = elsewhere.Name })
	r := f.render("pg")
	f.holds("target", "a", "1")
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	f.must(cluster.Client.Delete(t.Context(), f.secret("target")))
	f.holds("target", "a", "1") // it watches

	for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
		for _, resource := range []string{"secrets", "configmaps"} {
			if f.may(verb, resource, "") || f.may(verb, resource, elsewhere.Name) {
				t.Errorf("the agent may %s %s outside its namespaces", verb, resource)
			}
			if !f.may(verb, resource, f.namespace) {
				t.Errorf("the agent may not %s %s in its namespace", verb, resource)
			}
		}
	}
	if f.store.Spec(elsewhere.Name, unseen.Name) != nil {
		t.Error("the inventory holds a Render of another namespace")
	}
	if text := f.logs.String(); strings.Contains(text, "forbidden") {
		t.Error("the agent asked for what it may not")
	}
}

func TestRun_WithdrawnRightsAreReportedAndTheAgentRecoversByItself(t *testing.T) {
	f := newFixture(t, namespaced)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	f.role(func([]string) []string { return []string{"get", "list", "watch"} })
	f.Eventually(func() bool { return f.may("patch", "secrets", f.namespace) }).Should(gomega.BeFalse())

	f.store.Set("doc", "a", "2")
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyForbidden)
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRenderFailed)
	f.holds("target", "a", "1")
	f.role(func(verbs []string) []string { return append(verbs, "create", "patch", "delete") })
	f.holds("target", "a", "2")
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

// role changes what the agent may do with targets in the namespace.
func (f *fixture) role(change func(verbs []string) []string) {
	f.Helper()
	role := &rbacv1.Role{}
	f.must(cluster.Client.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: tenantRole}, role))
	for i := range role.Rules {
		if role.Rules[i].APIGroups[0] == "" {
			role.Rules[i].Verbs = change(role.Rules[i].Verbs)
		}
	}
	f.must(cluster.Client.Update(f.Context(), role))
}

func TestRun_AnAdmissionPolicyIsReportedAndTheAgentRecoversByItself(t *testing.T) {
	const canary = "canary-0c5d"
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	lift := f.deny()
	f.store.Set("doc", "a", canary)
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonAdmissionDenied)
	failed := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRenderFailed)
	f.holds("target", "a", "1")
	if text := *failed.Status.LastError; !strings.Contains(text, "deny-"+f.namespace) || strings.Contains(text, canary) {
		t.Errorf("want the policy named and not quoted, got %q", text)
	}
	// Letting go of a former target is denied with the server's words too.
	f.update(r, into("renamed"))
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonAdmissionDenied)
	lift()
	f.holds("renamed", "a", canary)
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if strings.Contains(f.logs.String(), canary) {
		t.Error("the policy's words are in the log")
	}
}

// Retain asks for a write of the former target, which a policy may deny with words that
// quote it.
func TestRun_ADeniedReleaseLogsNoValue(t *testing.T) {
	const canary = "canary-5e11"
	f := newFixture(t)
	f.store.Set("doc", "a", canary)
	r := f.render("pg", retain)
	f.settled(r, 1)
	lift := f.deny()
	f.update(r, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "target" })
	f.Eventually(f.logs.String).Should(gomega.ContainSubstring("unmark the former target"))
	lift()
	f.Eventually(func() map[string]string { return f.secret("target").Labels }).Should(gomega.BeEmpty())
	if strings.Contains(f.logs.String(), canary) {
		t.Error("the policy's words are in the log")
	}
}
