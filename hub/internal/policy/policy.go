package policy

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// Requester is who asks: a namespace of a cluster. The cluster is proven by its
// certificate; the namespace is the cluster's word.
type Requester struct {
	// Cluster is the name of the SpokeCluster.
	Cluster string
	// ClusterLabels are the labels of the SpokeCluster on the hub.
	ClusterLabels map[string]string
	// Accepted is the SpokeCluster's spec.accepted.
	Accepted bool
	// Suspended is the SpokeCluster's spec.suspend.
	Suspended bool
	// Namespace of the Render.
	Namespace string
}

// Class is what a class of either kind says about whom it serves.
type Class struct {
	// Kind of class.
	Kind v1alpha1.ClassKind
	// Name of the class.
	Name string
	// Namespace of a DynamicConfigClass: the one namespace it serves.
	Namespace string
	// Namespaces that a ClusterDynamicConfigClass serves: every one when nil, none
	// when empty.
	Namespaces []string
	// Clusters selects the clusters served, by their labels: every accepted one
	// when nil or without requirements, none when invalid.
	Clusters *metav1.LabelSelector
	// Keys are patterns of the keys served: any key when nil, none when empty.
	Keys []string
}

// Request is what is asked for.
type Request struct {
	// Key of the document.
	Key Key
}

// Rule names the rule that refused.
type Rule string

// The rules, in the order of the chain; RuleTarget is checked on its own.
const (
	RuleAccepted  Rule = "accepted"
	RuleSuspended Rule = "suspended"
	RuleClusters  Rule = "clusters"
	RuleNamespace Rule = "namespace"
	RuleKeys      Rule = "keys"
	RuleTarget    Rule = "target"
)

// Refusal says which rule refused and what the Render shows for it.
type Refusal struct {
	// Rule that refused.
	Rule Rule
	// ReadyReason is the reason of the Render's Ready condition.
	ReadyReason string
	// CauseCondition is the condition that carries the finer cause; empty where
	// Ready says it all.
	CauseCondition string
	// CauseReason is the reason of that condition.
	CauseReason string
	// Message for the tenant: names the class and what was asked for, never what
	// would be allowed.
	Message string
}

// rule answers the end of the sentence "class x ..." when it refuses, and "" when
// it does not.
type rule struct {
	name  Rule
	check func(Requester, Class, Request) string
}

// chain is every rule that needs no document, in the order they are checked.
var chain = []rule{
	{RuleAccepted, checkAccepted},   // first: a stranger learns nothing about the class
	{RuleSuspended, checkSuspended}, // a suspended cluster keeps what it has
	{RuleClusters, checkClusters},   // the class's selector over SpokeClusters
	{RuleNamespace, checkNamespace}, // the class's own or listed namespaces
	{RuleKeys, checkKeys},           // the class's key patterns
}

// Evaluate answers nil when the class serves the request, or the first rule that
// refuses it.
func Evaluate(who Requester, class Class, want Request) *Refusal {
	for _, r := range chain {
		if refused := r.check(who, class, want); refused != "" {
			return &Refusal{
				Rule:        r.name,
				ReadyReason: v1alpha1.ReasonClassNotAllowed,
				Message:     fmt.Sprintf("class %s %q %s", class.Kind, class.Name, refused),
			}
		}
	}
	return nil
}

// SecretTarget answers a refusal when a secret document would go into a
// ConfigMap.
func SecretTarget(documentIsSecret, targetIsSecret bool) *Refusal {
	if !documentIsSecret || targetIsSecret {
		return nil
	}
	return &Refusal{
		Rule:           RuleTarget,
		ReadyReason:    v1alpha1.ReasonRenderFailed,
		CauseCondition: v1alpha1.ConditionApplied,
		CauseReason:    v1alpha1.ReasonSecrecyDowngrade,
		Message: "the document is secret and is not written to a ConfigMap: " +
			"name a Secret in spec.target.secret instead of spec.target.configMap",
	}
}

func checkAccepted(who Requester, _ Class, _ Request) string {
	if who.Accepted && who.Cluster != "" {
		return ""
	}
	return "does not serve a cluster that is not accepted"
}

func checkSuspended(who Requester, _ Class, _ Request) string {
	if !who.Suspended {
		return ""
	}
	return "does not serve a suspended cluster"
}

func checkClusters(who Requester, class Class, _ Request) string {
	if class.Clusters == nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(class.Clusters)
	if err == nil && selector.Matches(labels.Set(who.ClusterLabels)) {
		return ""
	}
	return fmt.Sprintf("does not serve cluster %q", who.Cluster)
}

func checkNamespace(who Requester, class Class, _ Request) string {
	if who.Namespace != "" && servesNamespace(class, who.Namespace) {
		return ""
	}
	return fmt.Sprintf("does not serve namespace %q", who.Namespace)
}

func servesNamespace(class Class, namespace string) bool {
	switch class.Kind {
	case v1alpha1.ClassKindNamespaced:
		return class.Namespace == namespace
	case v1alpha1.ClassKindCluster:
		return class.Namespaces == nil || slices.Contains(class.Namespaces, namespace)
	}
	return false
}

func checkKeys(who Requester, class Class, want Request) string {
	serves := func(pattern string) bool { return matches(pattern, want.Key, who) }
	if want.Key != "" && (class.Keys == nil || slices.ContainsFunc(class.Keys, serves)) {
		return ""
	}
	return fmt.Sprintf("does not serve key %q", string(want.Key))
}
