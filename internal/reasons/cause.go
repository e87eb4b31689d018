package reasons

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// troubles are the conditions that tell of a problem beside Ready, with the status
// they have then, in order of weight.
var troubles = []struct {
	kind   string
	status metav1.ConditionStatus
}{
	{v1alpha1.ConditionFetched, metav1.ConditionFalse},
	{v1alpha1.ConditionApplied, metav1.ConditionFalse},
	{v1alpha1.ConditionContested, metav1.ConditionTrue},
	{v1alpha1.ConditionStale, metav1.ConditionTrue},
	{v1alpha1.ConditionKeysPinned, metav1.ConditionFalse},
}

// Cause is the condition that says most of why an object is as it is: the finer one
// where Ready is a summary, Ready itself otherwise. It is nil where nobody has looked
// at the object yet.
func Cause(conditions []metav1.Condition) *metav1.Condition {
	ready := apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if suspended := apimeta.FindStatusCondition(conditions, v1alpha1.ConditionFetched); suspended != nil && suspended.Reason == v1alpha1.ReasonSuspended {
		return suspended
	}
	summary := ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonRenderFailed)
	if !summary {
		return ready
	}
	for _, trouble := range troubles {
		if c := apimeta.FindStatusCondition(conditions, trouble.kind); c != nil && c.Status == trouble.status {
			return c
		}
	}
	return ready
}

// Fine says whether a cause is that all is well; nobody needs its message then.
func Fine(cause *metav1.Condition) bool {
	return cause.Type == v1alpha1.ConditionReady && cause.Status == metav1.ConditionTrue
}

// Owner is whose problem an object's state is; Nobody for none.
func Owner(conditions []metav1.Condition) string {
	cause := Cause(conditions)
	if cause == nil {
		return known[v1alpha1.ReasonPending].Owner
	}
	return known[cause.Reason].Owner
}
