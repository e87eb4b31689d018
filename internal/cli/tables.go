package cli

import (
	"cmp"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/internal/reasons"
)

// none stands for what is not there, as in kubectl.
const none = "<none>"

// columns names columns; those after the first few are for -o wide.
func columns(narrow int, names ...string) []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	for i, name := range names {
		column := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if i >= narrow {
			column.Priority = 1
		}
		all = append(all, column)
	}
	return all
}

// addRow appends the cells of an object.
func addRow(table *metav1.Table, object client.Object, cells ...any) {
	table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: object}})
}

// renderTable is Renders as rows; Reason is the finest that is known.
func renderTable(objects []client.Object, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns(7,
		"Name", "Class", "Target", "Ready", "Reason", "Since", "Age", "Key", "Owner", "Message")}
	for _, object := range objects {
		r, ok := object.(*v1alpha1.DynamicConfigRender)
		if !ok {
			continue
		}
		s := stateOf(r.Status.Conditions, now)
		addRow(table, r, r.Name, r.Spec.Class, strings.ToLower(r.Spec.Target.Kind())+"/"+r.Spec.Target.Name(),
			s.ready, s.reason, s.since, explain.Age(r.CreationTimestamp, now), r.Spec.Key, reasons.Owner(r.Status.Conditions), s.message)
	}
	return table
}

// classTable is classes of both kinds as rows.
func classTable(objects []client.Object, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns(8,
		"Name", "Kind", "Source", "Ready", "Reason", "Renders", "Failed", "Age", "Endpoint", "Clusters", "Message")}
	for _, object := range objects {
		c := kube.ClassOf(object)
		if c == nil {
			continue
		}
		s := stateOf(c.Status.Conditions, now)
		var counts v1alpha1.RenderCounts
		if c.Status.Renders != nil {
			counts = *c.Status.Renders
		}
		clusters := "<all>"
		if c.Common.Clusters != nil {
			clusters = metav1.FormatLabelSelector(c.Common.Clusters)
		}
		addRow(table, object, c.GetName(), string(c.Kind), string(c.Common.Source), s.ready, s.reason, counts.Total, counts.Failed,
			explain.Age(metav1.NewTime(c.GetCreationTimestamp().Time), now), cmp.Or(c.Common.Endpoint, none), clusters, s.message)
	}
	return table
}

// clusterTable is SpokeClusters as rows.
func clusterTable(objects []client.Object, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns(9,
		"Name", "Accepted", "Connected", "Reason", "Renders", "Ready", "Failed", "Agent", "Age", "Hub", "Session", "Labels", "Message")}
	for _, object := range objects {
		c, ok := object.(*v1alpha1.SpokeCluster)
		if !ok {
			continue
		}
		s := stateOf(c.Status.Conditions, now)
		var counts v1alpha1.RenderCounts
		if c.Status.Renders != nil {
			counts = *c.Status.Renders
		}
		session := v1alpha1.SpokeSession{}
		if c.Status.Session != nil {
			session = *c.Status.Session
		}
		connected := apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionConnected)
		began := ""
		if connected && session.ConnectedAt != nil {
			began = explain.Age(*session.ConnectedAt, now)
		}
		addRow(table, c, c.Name, c.Spec.Accepted, connected, s.reason, counts.Total, counts.Ready, counts.Failed,
			cmp.Or(session.AgentVersion, none), explain.Age(c.CreationTimestamp, now),
			cmp.Or(session.Hub, none), cmp.Or(began, none), metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: c.Labels}), s.message)
	}
	return table
}

// state is what the conditions of an object come to, for a row.
type state struct{ ready, reason, since, message string }

// stateOf reads conditions. What all is well says nobody needs to read.
func stateOf(conditions []metav1.Condition, now time.Time) state {
	cause := reasons.Cause(conditions)
	if cause == nil {
		return state{ready: "Unknown", reason: v1alpha1.ReasonPending, since: "<unknown>"}
	}
	s := state{ready: "Unknown", reason: cause.Reason, since: explain.Age(cause.LastTransitionTime, now)}
	if ready := apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		s.ready = string(ready.Status)
	}
	if !reasons.Fine(cause) {
		s.message = cause.Message
	}
	return s
}
