package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/render"
)

// What becomes of a data key.
const (
	keyAdded     = "added"
	keyRemoved   = "removed"
	keyChanged   = "changed"
	keyUnchanged = "unchanged"
)

// keyChange is one data key. There is no hash and no size of the value on purpose: from
// either a short secret can be guessed.
type keyChange struct {
	Key    string `json:"key"`
	Change string `json:"change"`
}

// newDiff compares a target with what a local document would make of it.
func newDiff(a *app) *cobra.Command {
	var from documentFlags
	cmd := &cobra.Command{
		Use:   "diff NAME -f FILE",
		Short: "Compare a Render's target with what a local document would make of it",
		Long: "Compares the data keys that a Render has written with those that a local document would give, and says\n" +
			"which are added, removed, changed or unchanged. Values are compared in memory and never shown.\n\n" +
			"Exit code: 0 when nothing would change, 1 when something would, 2 after an error.",
		Annotations:       map[string]string{threeCodes: ""},
		ValidArgsFunction: a.completeRenders(true),
		Args:              usage(cobra.ExactArgs(1)),
	}
	out := newDataOutput(cmd)
	from.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changes, err := a.diff(cmd.Context(), args[0], &from)
		if err != nil {
			return err
		}
		if err := out.print(a, changes, func() error { return a.printTable(changeTable(changes)) }); err != nil {
			return err
		}
		if slices.ContainsFunc(changes, func(c keyChange) bool { return c.Change != keyUnchanged }) {
			return &silentError{exitError}
		}
		return nil
	}
	return cmd
}

// diff renders the document for a Render and compares it with the target.
func (a *app) diff(ctx context.Context, name string, from *documentFlags) ([]keyChange, error) {
	workload, r, err := a.render(ctx, name)
	if err != nil {
		return nil, err
	}
	doc, err := from.read(a.In, r.Spec.Format)
	if err != nil {
		return nil, err
	}
	want, err := render.Render(doc, render.Target{Section: r.Spec.Section, Shape: r.Spec.Target.Shape, File: r.Spec.Target.File})
	if err != nil {
		return nil, refusal(err)
	}
	target, err := wholeTarget(ctx, workload, r)
	if err != nil {
		return nil, err
	}
	if target != nil && target.GetLabels()[v1alpha1.LabelRenderUID] != string(r.UID) {
		a.say("Note: %s was not written by this Render; dynconf why %s says how that is.", targetOfRender(r), r.Name)
	}
	have, err := written(target)
	if err != nil {
		return nil, err
	}
	return compareKeys(have, want), nil
}

// compareKeys says what becomes of each key, in order of name.
func compareKeys(have, want map[string][]byte) []keyChange {
	all := map[string][]byte{}
	maps.Copy(all, have)
	maps.Copy(all, want)
	changes := []keyChange{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, was := have[key]
		after, is := want[key]
		change := keyChanged
		switch {
		case !was:
			change = keyAdded
		case !is:
			change = keyRemoved
		case bytes.Equal(before, after):
			change = keyUnchanged
		}
		changes = append(changes, keyChange{key, change})
	}
	return changes
}

func changeTable(changes []keyChange) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns(2, "Key", "Change")}
	for _, c := range changes {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{c.Key, c.Change}})
	}
	return table
}

// wholeTarget reads a Render's target with its data; nil when there is none.
func wholeTarget(ctx context.Context, workload *kube.Conn, r *v1alpha1.DynamicConfigRender) (client.Object, error) {
	var object client.Object = &corev1.ConfigMap{}
	if r.Spec.Target.IsSecret() {
		object = &corev1.Secret{}
	}
	err := workload.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.Target.Name()}, object)
	if kube.Absent(err) {
		return nil, nil
	}
	return object, workload.Wrap(err)
}

// written is the data that the agent wrote to a target; empty when there is no target.
// What others added to it is not compared, as the agent does not.
func written(object client.Object) (map[string][]byte, error) {
	if object == nil {
		return nil, nil
	}
	ours, err := agentFields(object)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for key, value := range dataOf(object) {
		if ours.Has(fieldpath.MakePathOrDie("data", key)) || ours.Has(fieldpath.MakePathOrDie("binaryData", key)) {
			data[key] = value
		}
	}
	return data, nil
}

// dataOf is the data of a ConfigMap or Secret.
func dataOf(object client.Object) map[string][]byte {
	data := map[string][]byte{}
	switch o := object.(type) {
	case *corev1.Secret:
		maps.Copy(data, o.Data)
	case *corev1.ConfigMap:
		maps.Copy(data, o.BinaryData)
		for key, value := range o.Data {
			data[key] = []byte(value)
		}
	}
	return data
}

// agentFields are the fields that the agent applied.
func agentFields(object client.Object) (*fieldpath.Set, error) {
	ours := &fieldpath.Set{}
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != v1alpha1.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", object.GetName(), err)
		}
		ours = ours.Union(set)
	}
	return ours, nil
}
