package apply

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// dataFields are the maps of a ConfigMap or Secret that hold content.
var dataFields = []string{"data", "binaryData"}

// ownership is who manages which fields of an object.
type ownership struct {
	// ours holds what the spoke applied and still owns.
	ours *fieldpath.Set
	// applied holds what others declare by server-side apply: a standing claim.
	applied *fieldpath.Set
	// updated holds what others changed without a claim: kubectl edit, scripts.
	updated *fieldpath.Set
}

// ownershipOf reads the managed fields of an object.
func ownershipOf(entries []metav1.ManagedFieldsEntry) (ownership, error) {
	o := ownership{ours: &fieldpath.Set{}, applied: &fieldpath.Set{}, updated: &fieldpath.Set{}}
	for _, entry := range entries {
		if entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return ownership{}, fmt.Errorf("managed fields of %s: %w", entry.Manager, err)
		}
		switch {
		case isOurs(entry):
			o.ours = o.ours.Union(set)
		case entry.Operation == metav1.ManagedFieldsOperationApply:
			o.applied = o.applied.Union(set)
		default:
			o.updated = o.updated.Union(set)
		}
	}
	return o, nil
}

// isOurs says whether an entry is the spoke's server-side apply.
func isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == v1alpha1.FieldManager &&
		entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// LastWriter is who wrote a target last, the spoke aside; empty for nobody. The name
// is what a manager gives itself.
func LastWriter(target *metav1.PartialObjectMetadata) string {
	if target == nil {
		return ""
	}
	var last metav1.ManagedFieldsEntry
	for _, entry := range target.ManagedFields {
		if !isOurs(entry) && (last.Manager == "" || last.Time.Before(entry.Time)) {
			last = entry
		}
	}
	return last.Manager
}

// countDataKeys counts the data keys in a set.
func countDataKeys(set *fieldpath.Set) int {
	n := 0
	for _, field := range dataFields {
		n += set.WithPrefix(fieldpath.PathElement{FieldName: &field}).Size()
	}
	return n
}

// wantedMarks are the labels and annotations the spoke sets, as fields.
func wantedMarks(labels, annotations map[string]string) *fieldpath.Set {
	set := &fieldpath.Set{}
	for label := range labels {
		set.Insert(fieldpath.MakePathOrDie("metadata", "labels", label))
	}
	for annotation := range annotations {
		set.Insert(fieldpath.MakePathOrDie("metadata", "annotations", annotation))
	}
	return set
}

// wantedData are data keys, as fields. A key counts in either map, since a value
// may move between them when it stops being text.
func wantedData(keys []string) *fieldpath.Set {
	set := &fieldpath.Set{}
	for _, key := range keys {
		for _, field := range dataFields {
			set.Insert(fieldpath.MakePathOrDie(field, key))
		}
	}
	return set
}
