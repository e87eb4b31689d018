package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
)

// who is a requester that a class without restrictions serves.
func who(change func(*policy.Requester)) policy.Requester {
	r := policy.Requester{
		Cluster:       "east-1",
		ClusterLabels: map[string]string{"env": "prod"},
		Accepted:      true,
		Namespace:     "team-a",
	}
	if change != nil {
		change(&r)
	}
	return r
}

// class is a cluster class without restrictions.
func class(change func(*policy.Class)) policy.Class {
	c := policy.Class{Kind: v1alpha1.ClassKindCluster, Name: "platform"}
	if change != nil {
		change(&c)
	}
	return c
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}}
	cases := map[string]struct {
		who   func(*policy.Requester)
		class func(*policy.Class)
		want  policy.Rule
	}{
		"a class without restrictions serves every accepted cluster": {},
		"a cluster that is not accepted gets nothing": {
			who:  func(r *policy.Requester) { r.Accepted = false },
			want: policy.RuleAccepted,
		},
		"a cluster without a name gets nothing": {
			who:  func(r *policy.Requester) { r.Cluster = "" },
			want: policy.RuleAccepted,
		},
		"a suspended cluster gets nothing": {
			who:  func(r *policy.Requester) { r.Suspended = true },
			want: policy.RuleSuspended,
		},
		"not accepted comes before everything else": {
			who: func(r *policy.Requester) { r.Accepted, r.Suspended = false, true },
			class: func(c *policy.Class) {
				c.Clusters, c.Namespaces, c.Keys = invalid, []string{}, []string{}
			},
			want: policy.RuleAccepted,
		},
		"the selector selects the cluster": {
			class: func(c *policy.Class) { c.Clusters = prod },
		},
		"the selector does not select the cluster": {
			who:   func(r *policy.Requester) { r.ClusterLabels = map[string]string{"env": "dev"} },
			class: func(c *policy.Class) { c.Clusters = prod },
			want:  policy.RuleClusters,
		},
		"a cluster without labels is not selected": {
			who:   func(r *policy.Requester) { r.ClusterLabels = nil },
			class: func(c *policy.Class) { c.Clusters = prod },
			want:  policy.RuleClusters,
		},
		"a selector without requirements selects every cluster": {
			class: func(c *policy.Class) { c.Clusters = &metav1.LabelSelector{} },
		},
		"an invalid selector selects none": {
			class: func(c *policy.Class) { c.Clusters = invalid },
			want:  policy.RuleClusters,
		},
		"a listed namespace is served": {
			class: func(c *policy.Class) { c.Namespaces = []string{"team-b", "team-a"} },
		},
		"a prefix of a listed namespace is not served": {
			class: func(c *policy.Class) { c.Namespaces = []string{"team-a-2"} },
			want:  policy.RuleNamespace,
		},
		"an empty list of namespaces serves none": {
			class: func(c *policy.Class) { c.Namespaces = []string{} },
			want:  policy.RuleNamespace,
		},
		"a requester without a namespace gets nothing": {
			who:  func(r *policy.Requester) { r.Namespace = "" },
			want: policy.RuleNamespace,
		},
		"a namespaced class serves its own namespace": {
			class: func(c *policy.Class) { c.Kind, c.Namespace = v1alpha1.ClassKindNamespaced, "team-a" },
		},
		"a namespaced class serves no other namespace": {
			class: func(c *policy.Class) { c.Kind, c.Namespace = v1alpha1.ClassKindNamespaced, "team-b" },
			want:  policy.RuleNamespace,
		},
		"a list of namespaces does not widen a namespaced class": {
			class: func(c *policy.Class) {
				c.Kind, c.Namespace, c.Namespaces = v1alpha1.ClassKindNamespaced, "team-b", []string{"team-a"}
			},
			want: policy.RuleNamespace,
		},
		"an unknown kind of class serves nobody": {
			class: func(c *policy.Class) { c.Kind = "Other" },
			want:  policy.RuleNamespace,
		},
		"an empty list of keys serves no key": {
			class: func(c *policy.Class) { c.Keys = []string{} },
			want:  policy.RuleKeys,
		},
		"one pattern of several is enough": {
			class: func(c *policy.Class) { c.Keys = []string{"other", "app/*"} },
		},
		"an invalid pattern does not spoil a valid one": {
			class: func(c *policy.Class) { c.Keys = []string{"a*", "app/*"} },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := policy.Evaluate(who(tc.who), class(tc.class), policy.Request{Key: "app/db.json"})
			switch {
			case got == nil && tc.want != "":
				t.Fatalf("allowed, want a refusal by rule %s", tc.want)
			case got != nil && got.Rule != tc.want:
				t.Fatalf("refused by rule %s, want %q", got.Rule, tc.want)
			case got != nil && got.ReadyReason != v1alpha1.ReasonClassNotAllowed:
				t.Fatalf("reason %s", got.ReadyReason)
			}
		})
	}
}

func TestEvaluate_RefusesARequestWithoutKey(t *testing.T) {
	t.Parallel()
	got := policy.Evaluate(who(nil), class(nil), policy.Request{})
	if got == nil || got.Rule != policy.RuleKeys {
		t.Fatalf("got %+v", got)
	}
}

func TestEvaluate_RefusalNamesTheClassAndNotWhatIsAllowed(t *testing.T) {
	t.Parallel()
	restricted := class(func(c *policy.Class) {
		c.Namespaces = []string{"allowed-namespace"}
		c.Keys = []string{"allowed-key/**"}
		c.Clusters = &metav1.LabelSelector{MatchLabels: map[string]string{"allowed-label": "x"}}
	})
	steps := []func(*policy.Requester){
		func(*policy.Requester) {},
		func(r *policy.Requester) { r.ClusterLabels = map[string]string{"allowed-label": "x"} },
		func(r *policy.Requester) {
			r.ClusterLabels, r.Namespace = map[string]string{"allowed-label": "x"}, "allowed-namespace"
		},
	}
	for _, step := range steps {
		requester := who(step)
		got := policy.Evaluate(requester, restricted, policy.Request{Key: "app"})
		if got == nil {
			t.Fatal("allowed")
		}
		if !strings.Contains(got.Message, `class ClusterDynamicConfigClass "platform"`) {
			t.Errorf("message %q does not name the class", got.Message)
		}
		shown := strings.ReplaceAll(got.Message, requester.Namespace, "")
		if strings.Contains(shown, "allowed-") {
			t.Errorf("message %q names what is allowed", got.Message)
		}
	}
}

func TestSecretTarget(t *testing.T) {
	t.Parallel()
	for _, allowed := range [][2]bool{{false, false}, {false, true}, {true, true}} {
		if got := policy.SecretTarget(allowed[0], allowed[1]); got != nil {
			t.Errorf("SecretTarget(%v) refused: %+v", allowed, got)
		}
	}
	got := policy.SecretTarget(true, false)
	if got == nil || !strings.Contains(got.Message, "spec.target.secret") {
		t.Fatalf("got %+v, want a refusal that points at spec.target.secret", got)
	}
	want := &policy.Refusal{
		Rule:           policy.RuleTarget,
		ReadyReason:    v1alpha1.ReasonRenderFailed,
		CauseCondition: v1alpha1.ConditionApplied,
		CauseReason:    v1alpha1.ReasonSecrecyDowngrade,
		Message:        got.Message,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}
