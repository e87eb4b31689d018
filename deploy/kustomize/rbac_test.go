// Package kustomize_test applies the plain manifests to a real API server and
// asks it what each ServiceAccount may do then.
package kustomize_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/internal/testbin"
	"dynamic-config.rs/fleet/internal/testenv"
)

const (
	own   = "dynamic-config-system"
	group = "dynamic-config.rs"
)

// patience is how long the authorizer may take on a busy machine.
const patience = 90 * time.Second

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { cluster = c }, testenv.WithoutControllers)
}

// access is one question to the authorizer.
type access struct {
	verb, group, resource, subresource, namespace, name string
	allowed                                             bool
}

func TestHub(t *testing.T) {
	apply(t, "hub")
	check(t, own, "dynamic-config-hub", map[string]access{
		"watches classes in every namespace":       {"watch", group, "dynamicconfigclasses", "", "", "", true},
		"watches cluster classes":                  {"watch", group, "clusterdynamicconfigclasses", "", "", "", true},
		"watches SpokeClusters":                    {"watch", group, "spokeclusters", "", "", "", true},
		"writes a class's status":                  {"update", group, "dynamicconfigclasses", "status", "team-a", "c", true},
		"writes a cluster class's status":          {"update", group, "clusterdynamicconfigclasses", "status", "", "c", true},
		"writes a SpokeCluster's status":           {"update", group, "spokeclusters", "status", "", "s", true},
		"does not write a class's spec":            {"update", group, "dynamicconfigclasses", "", "team-a", "c", false},
		"does not accept a SpokeCluster itself":    {"patch", group, "spokeclusters", "", "", "s", false},
		"does not make a SpokeCluster":             {"create", group, "spokeclusters", "", "", "", false},
		"does not delete a SpokeCluster":           {"delete", group, "spokeclusters", "", "", "s", false},
		"reports events about SpokeClusters":       {"create", "events.k8s.io", "events", "", "default", "", true},
		"reports none elsewhere":                   {"create", "events.k8s.io", "events", "", "team-a", "", false},
		"reads credentials":                        {"get", "", "secrets", "", "platform", "vault-token", true},
		"watches documents in ConfigMaps":          {"watch", "", "configmaps", "", "platform", "", true},
		"does not write others' Secrets":           {"update", "", "secrets", "", "platform", "vault-token", false},
		"does not make Secrets elsewhere":          {"create", "", "secrets", "", "platform", "", false},
		"does not write ConfigMaps":                {"update", "", "configmaps", "", "platform", "a", false},
		"keeps its CA in its own namespace":        {"create", "", "secrets", "", own, "", true},
		"rotates its CA":                           {"update", "", "secrets", "", own, "dynamic-config-hub-ca", true},
		"does not change its content key":          {"update", "", "secrets", "", own, "dynamic-config-hub-content-key", false},
		"publishes its roots":                      {"update", "", "configmaps", "", own, "dynamic-config-hub-ca", true},
		"does not delete its CA":                   {"delete", "", "secrets", "", own, "dynamic-config-hub-ca", false},
		"elects its leader":                        {"update", "coordination.k8s.io", "leases", "", own, "dynamic-config-hub-leader", true},
		"sees which of its replicas are alive":     {"list", "coordination.k8s.io", "leases", "", own, "", true},
		"forgets a replica":                        {"delete", "coordination.k8s.io", "leases", "", own, "dynamic-config-hub-replica-a", true},
		"takes no Lease elsewhere":                 {"update", "coordination.k8s.io", "leases", "", "kube-system", "a", false},
		"reports no events":                        {"create", "events.k8s.io", "events", "", "team-a", "", false},
		"requests no tokens":                       {"create", "", "serviceaccounts", "token", own, "dynamic-config-hub", false},
		"does not read Renders of its own cluster": {"list", group, "dynamicconfigrenders", "", "", "", false},
		"does not give itself more":                {"update", rbacv1.GroupName, "clusterroles", "", "", "dynamic-config-hub", false},
	})
}

// The rights that the fleet page needs come and go with it.
func TestHubWithItsPage(t *testing.T) {
	apply(t, "hub-web")
	check(t, own, "dynamic-config-hub", map[string]access{
		"asks whose a token is":                 {"create", "authentication.k8s.io", "tokenreviews", "", "", "", true},
		"asks what a user may":                  {"create", "authorization.k8s.io", "subjectaccessreviews", "", "", "", true},
		"acts as nobody else":                   {"impersonate", "", "users", "", "", "", false},
		"may not see the page itself":           {"get", group, "spokeclusters", "renders", "", "", false},
		"rotates its CA, as without the page":   {"update", "", "secrets", "", own, "dynamic-config-hub-ca", true},
		"requests no tokens, as without a page": {"create", "", "serviceaccounts", "token", own, "dynamic-config-hub", false},
	})
	for _, kind := range []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRole{}} {
		kind.SetName("dynamic-config-hub-web")
		if err := cluster.Client.Delete(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	check(t, own, "dynamic-config-hub", map[string]access{
		"asks no more whose a token is": {"create", "authentication.k8s.io", "tokenreviews", "", "", "", false},
		"asks no more what a user may":  {"create", "authorization.k8s.io", "subjectaccessreviews", "", "", "", false},
	})
}

func TestSpoke(t *testing.T) {
	apply(t, "spoke")
	check(t, own, "dynamic-config-spoke", map[string]access{
		"watches Renders":                        {"watch", group, "dynamicconfigrenders", "", "", "", true},
		"writes a Render's status":               {"update", group, "dynamicconfigrenders", "status", "team-a", "r", true},
		"does not write a Render's spec":         {"update", group, "dynamicconfigrenders", "", "team-a", "r", false},
		"does not delete a Render":               {"delete", group, "dynamicconfigrenders", "", "team-a", "r", false},
		"does not read classes":                  {"list", group, "dynamicconfigclasses", "", "", "", false},
		"does not read SpokeClusters":            {"list", group, "spokeclusters", "", "", "", false},
		"makes a target Secret":                  {"create", "", "secrets", "", "team-a", "", true},
		"applies a target ConfigMap":             {"patch", "", "configmaps", "", "team-a", "a", true},
		"deletes a target":                       {"delete", "", "secrets", "", "team-a", "a", true},
		"watches targets":                        {"watch", "", "secrets", "", "", "", true},
		"replaces no target":                     {"update", "", "secrets", "", "team-a", "a", false},
		"never deletes targets by the lot":       {"deletecollection", "", "secrets", "", "team-a", "", false},
		"keeps its identity":                     {"patch", "", "secrets", "", own, "dynamic-config-spoke-identity", true},
		"requests a token for itself":            {"create", "", "serviceaccounts", "token", own, "dynamic-config-spoke", true},
		"requests no token for another":          {"create", "", "serviceaccounts", "token", own, "default", false},
		"requests no token in another namespace": {"create", "", "serviceaccounts", "token", "team-a", "dynamic-config-spoke", false},
		"reports events":                         {"create", "events.k8s.io", "events", "", "team-a", "", true},
		"reports no events of the old kind":      {"create", "", "events", "", "team-a", "", false},
		"reads no Pods":                          {"list", "", "pods", "", "team-a", "", false},
		"does not give itself more":              {"update", rbacv1.GroupName, "clusterroles", "", "", "dynamic-config-spoke", false},
	})
}

// TestSpokeInSomeNamespaces holds the agent of another namespace to what the chart
// gives it for two.
func TestSpokeInSomeNamespaces(t *testing.T) {
	const home = "teams-agent"
	rendered, err := os.ReadFile(filepath.Join("..", "charts", "spoke", "testdata", "namespaces.golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{home, "team-a", "team-b"} {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), made)); err != nil {
			t.Fatal(err)
		}
	}
	kubectlApply(t, strings.ReplaceAll(string(rendered), own, home), "--filename", "-")
	check(t, home, "dynamic-config-spoke", map[string]access{
		"watches Renders in one of them":        {"watch", group, "dynamicconfigrenders", "", "team-a", "", true},
		"watches Renders in the other":          {"watch", group, "dynamicconfigrenders", "", "team-b", "", true},
		"writes a target in one of them":        {"patch", "", "secrets", "", "team-b", "a", true},
		"does not watch Renders everywhere":     {"watch", group, "dynamicconfigrenders", "", "", "", false},
		"does not watch Renders in a third":     {"watch", group, "dynamicconfigrenders", "", "team-c", "", false},
		"reads no Secrets in a third":           {"get", "", "secrets", "", "team-c", "a", false},
		"writes no target in a third":           {"create", "", "secrets", "", "team-c", "", false},
		"keeps its identity":                    {"patch", "", "secrets", "", home, "dynamic-config-spoke-identity", true},
		"reads no other Secret of its own home": {"get", "", "secrets", "", home, "join", false},
	})
}

// The roles that tenants have of Kubernetes cover Renders.
func TestTenants(t *testing.T) {
	apply(t, "spoke")
	for name, c := range map[string]struct {
		role, verb string
		covered    bool
	}{
		"who views sees Renders":                  {"dynamic-config-renders-view", "list", true},
		"who views changes none":                  {"dynamic-config-renders-view", "patch", false},
		"who edits makes Renders":                 {"dynamic-config-renders-edit", "create", true},
		"who edits says nothing of their outcome": {"dynamic-config-renders-edit", "update/status", false},
	} {
		t.Run(name, func(t *testing.T) {
			role := &rbacv1.ClusterRole{}
			if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: c.role}, role); err != nil {
				t.Fatal(err)
			}
			verb, subresource, _ := strings.Cut(c.verb, "/")
			resource := strings.TrimSuffix("dynamicconfigrenders/"+subresource, "/")
			covered := slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
			})
			if covered != c.covered {
				t.Errorf("covered: %t", covered)
			}
		})
	}
}

// TestNoWildcards reads what was applied: a star would pass every case above
// that allows.
func TestNoWildcards(t *testing.T) {
	apply(t, "hub")
	apply(t, "spoke")
	for _, name := range []string{"dynamic-config-hub", "dynamic-config-spoke"} {
		role := &rbacv1.ClusterRole{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "*") }) {
					t.Errorf("%s: %v", name, rule)
				}
			}
		}
	}
}

// apply does what the docs tell a user to do.
func apply(t *testing.T, side string) {
	t.Helper()
	kubectlApply(t, "", "--kustomize", side)
}

func kubectlApply(t *testing.T, stdin string, args ...string) {
	t.Helper()
	kubectl, err := testbin.Path("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, append([]string{"--kubeconfig", cluster.Kubeconfig, "apply", "--server-side"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// check asks the API server for each case what the ServiceAccount may do.
func check(t *testing.T, home, account string, cases map[string]access) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + home + ":" + account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: c.verb, Group: c.group, Resource: c.resource, Subresource: c.subresource,
					Namespace: c.namespace, Name: c.name,
				},
			}}
			// The authorizer reads roles from a watch, which lags behind the apply.
			allowed := func() bool {
				answer := review.DeepCopy()
				if err := cluster.Client.Create(t.Context(), answer); err != nil {
					t.Fatal(err)
				}
				return answer.Status.Allowed
			}
			gomega.NewWithT(t).Eventually(allowed, patience).Should(gomega.Equal(c.allowed))
		})
	}
}
