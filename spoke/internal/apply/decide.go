package apply

import (
	"bytes"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
)

// action is what to do with a target.
type action int

const (
	// actNothing: the target holds the content unharmed.
	actNothing action = iota
	// actCreate: there is no such object.
	actCreate
	// actUpdate: the target is ours and differs.
	actUpdate
	// actTakeOver: the target is nobody's any more, or is adopted.
	actTakeOver
)

// situation is all that a decision rests on.
type situation struct {
	render    *v1alpha1.DynamicConfigRender
	contentID []byte
	keys      []string
	// target is the metadata of the object of the target's name; nil for none.
	target *metav1.PartialObjectMetadata
	// rival is another Render that the target belongs to and that still names
	// it; nil for none.
	rival *v1alpha1.DynamicConfigRender
}

// plan is a decision.
type plan struct {
	action action
	// force takes fields from other managers: when adopting, and when somebody
	// changed what was ours.
	force bool
}

// decide says what to do, or refuses with an *Error.
func decide(s situation) (plan, error) {
	if s.render.Spec.Target.Secret == credential.SecretName {
		return plan{}, s.refuse(v1alpha1.ReasonTargetInvalid, "bears the name that the agent keeps its own identity under")
	}
	if s.target == nil {
		return plan{action: actCreate}, nil
	}
	if !s.target.DeletionTimestamp.IsZero() {
		return plan{}, s.refuse(v1alpha1.ReasonApplyFailed, "is being deleted")
	}
	if ref := metav1.GetControllerOf(s.target); ref != nil && !isRender(ref) {
		return plan{}, s.refuse(v1alpha1.ReasonTargetConflict, "is controlled by %s %q", ref.Kind, ref.Name)
	}
	switch owner := ownerUID(s.render, s.target); {
	case owner == s.render.UID:
		if bytes.Equal(Intact(s.render, s.target), s.contentID) {
			return plan{action: actNothing}, nil
		}
		return s.write(actUpdate)
	case owner == "" || !written(s.target):
		return s.adopt()
	default:
		if s.rival != nil && older(s.rival, s.render) {
			return plan{}, s.refuse(v1alpha1.ReasonTargetConflict, "belongs to the older Render %q", s.rival.Name)
		}
		return s.write(actTakeOver)
	}
}

// adopt plans to take over what is nobody's, where that is wanted.
func (s situation) adopt() (plan, error) {
	if !s.render.Spec.Target.Adopt {
		return plan{}, s.refuse(v1alpha1.ReasonTargetNotOwned,
			"exists and is not managed by a Render; choose another name or set spec.target.adopt")
	}
	return plan{action: actTakeOver, force: true}, nil
}

// write plans a write to a target that bears our marks. Without force the server
// refuses every field that another manager holds with another value. Force is
// planned only for drift: fields that were ours and that somebody changed without
// a standing claim.
func (s situation) write(a action) (plan, error) {
	owned, err := ownershipOf(s.target.ManagedFields)
	if err != nil {
		return plan{}, s.refuse(v1alpha1.ReasonApplyFailed, "has unreadable managed fields")
	}
	marks := wantedMarks(labelsFor(s.render), annotationsFor(s.render, s.contentID, len(s.keys)))
	data := wantedData(s.keys)
	if !owned.applied.Intersection(marks.Union(data)).Difference(owned.ours).Empty() {
		return plan{action: a}, nil
	}
	changedMarks := owned.updated.Intersection(marks).Difference(owned.ours).Size()
	changedKeys := owned.updated.Intersection(data).Difference(owned.ours).Size()
	if changedMarks+changedKeys == 0 {
		return plan{action: a}, nil
	}
	recorded, malformed := strconv.Atoi(s.target.Annotations[v1alpha1.AnnotationDataKeys])
	if malformed != nil {
		// The record itself was tampered with, so the rest is drift too.
		return plan{action: a, force: true}, nil //nolint:nilerr // a record that cannot be read is a finding, no failure
	}
	// More keys of others than we lost: at least one of them was never ours.
	lost := recorded - countDataKeys(owned.ours)
	return plan{action: a, force: changedKeys <= max(lost, 0)}, nil
}

// refuse makes an Error about the target.
func (s situation) refuse(reason, format string, args ...any) *Error {
	return refusal(s.render, reason, nil, format, args...)
}

// older says whether a keeps a target that b names too.
func older(a, b *v1alpha1.DynamicConfigRender) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// describe names a Render's target for people.
func describe(render *v1alpha1.DynamicConfigRender) string {
	return fmt.Sprintf("%s %q", render.Spec.Target.Kind(), render.Spec.Target.Name())
}
