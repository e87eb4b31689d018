// Package tree draws what a Render depends on and what depends on it: the class, the
// store behind it and the target, each with its state, reason and age. It is pure:
// objects in, rows out.
package tree

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// unknown is what is shown where nobody could look.
const unknown = "Unknown"

// Node is one thing and what hangs on it.
type Node struct {
	// Name is kind/name, or kind/namespace/name.
	Name string `json:"name"`
	// Status and Reason are those of the condition that speaks of it.
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	// Since is when they changed last.
	Since *metav1.Time `json:"since,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
	// Children are what it depends on, or what it writes.
	Children []*Node `json:"children,omitempty"`
}

// Parts are what a tree is made of. What could not be read is nil, and its note says
// why.
type Parts struct {
	Render     *v1alpha1.DynamicConfigRender
	Class      *kube.Class
	ClassNote  string
	Target     *metav1.PartialObjectMetadata
	TargetNote string
	// Cluster is the workload cluster as the hub sees it; nil where that is not known.
	Cluster *v1alpha1.SpokeCluster
}

// Of returns the tree of a Render.
func Of(p *Parts) *Node {
	r := p.Render
	root := conditionNode("dynamicconfigrender/"+r.Namespace+"/"+r.Name, r.Status.Conditions, v1alpha1.ConditionReady)
	if stale := apimeta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionStale); stale != nil && stale.Status == metav1.ConditionTrue {
		root.Children = append(root.Children, conditionNode("hub session", r.Status.Conditions, v1alpha1.ConditionStale))
		root.Children[0].Status = "Lost" // True would read as good
	}
	// What nobody takes any more looks as good as it was.
	if c := p.Cluster; c != nil && !apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
		root.Children = append(root.Children, conditionNode("spokecluster/"+c.Name, c.Status.Conditions, v1alpha1.ConditionReady))
	}
	class := classNode(p)
	class.Children = []*Node{storeNode(p)}
	root.Children = append(root.Children, class, targetNode(p))
	return root
}

// classNode is the class, as the hub sees it.
func classNode(p *Parts) *Node {
	s := &p.Render.Spec
	namespace := ""
	if s.EffectiveClassKind() == v1alpha1.ClassKindNamespaced {
		namespace = p.Render.Namespace
	}
	name := "class/" + v1alpha1.ClassID(s.EffectiveClassKind(), namespace, s.Class)
	if p.Class == nil {
		return &Node{Name: name, Status: unknown, Message: p.ClassNote}
	}
	return conditionNode(name, p.Class.Status.Conditions, v1alpha1.ConditionReady)
}

// storeNode is the document in the store: where it is by the class, and how it is by
// the Render.
func storeNode(p *Parts) *Node {
	name := "document/" + p.Render.Spec.Key
	if p.Class != nil {
		name = fmt.Sprintf("%s/%s", p.Class.Common.Source, p.Render.Spec.Key)
	}
	return conditionNode(name, p.Render.Status.Conditions, v1alpha1.ConditionFetched)
}

// targetNode is the ConfigMap or Secret.
func targetNode(p *Parts) *Node {
	target := &p.Render.Spec.Target
	node := conditionNode("target/"+target.Kind()+"/"+target.Name(), p.Render.Status.Conditions, v1alpha1.ConditionApplied)
	switch {
	case p.TargetNote != "":
		node.Message = joined(p.TargetNote, node.Message)
	case p.Target != nil && p.Target.Annotations[v1alpha1.AnnotationDataKeys] != "":
		node.Message = joined(p.Target.Annotations[v1alpha1.AnnotationDataKeys]+" data keys", node.Message)
	}
	return node
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// conditionNode is a node with what one condition says. What all is well says nobody
// needs to read.
func conditionNode(name string, conditions []metav1.Condition, kind string) *Node {
	c := apimeta.FindStatusCondition(conditions, kind)
	if c == nil {
		return &Node{Name: name, Status: unknown}
	}
	node := &Node{Name: name, Status: string(c.Status), Reason: c.Reason, Since: &c.LastTransitionTime}
	if c.Status != metav1.ConditionTrue || kind == v1alpha1.ConditionStale {
		node.Message = c.Message
	}
	return node
}

// Table returns the tree as rows: a node a row, its place drawn before its name.
func (n *Node) Table(now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string"},
		{Name: "Status", Type: "string"},
		{Name: "Reason", Type: "string"},
		{Name: "Age", Type: "string"},
		{Name: "Message", Type: "string"},
	}}
	n.rows(table, now, "", "")
	return table
}

// rows appends a node and what is below it.
func (n *Node) rows(table *metav1.Table, now time.Time, own, below string) {
	age := ""
	if n.Since != nil {
		age = explain.Age(*n.Since, now)
	}
	table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{own + n.Name, n.Status, n.Reason, age, n.Message}})
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.rows(table, now, below+"└─ ", below+"   ")
		} else {
			child.rows(table, now, below+"├─ ", below+"│  ")
		}
	}
}
