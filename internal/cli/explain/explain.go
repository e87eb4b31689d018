package explain

import (
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

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

// Paragraph says in one paragraph what is the matter with an object: what fails, since
// when, whose it is and what to do.
func Paragraph(what string, conditions []metav1.Condition, now time.Time) string {
	cause := Cause(conditions)
	if cause == nil {
		return fmt.Sprintf("%s: nobody has looked at it yet. %s", what, known[v1alpha1.ReasonPending].Text)
	}
	words := []string{fmt.Sprintf("%s: %s is %s with %s since %s (%s ago).",
		what, cause.Type, cause.Status, printers.EscapeTerminal(cause.Reason),
		cause.LastTransitionTime.UTC().Format(time.RFC3339), Age(cause.LastTransitionTime, now))}
	if reason, ok := Lookup(cause.Reason); ok {
		words = append(words, reason.Text)
	} else {
		words = append(words, "This dynconf does not know the reason: it is older than the hub or the agent.")
	}
	if cause.Message != "" && !Fine(cause) {
		words = append(words, "It says: "+printers.EscapeTerminal(strings.ReplaceAll(cause.Message, "\n", " ")))
	}
	return strings.Join(words, " ")
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

// Age is how long ago a time was, as kubectl writes it; <unknown> for none.
func Age(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
