package explain

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/reasons"
)

// Paragraph says in one paragraph what is the matter with an object: what fails, since
// when, whose it is and what to do.
func Paragraph(what string, conditions []metav1.Condition, now time.Time) string {
	cause := reasons.Cause(conditions)
	if cause == nil {
		pending, _ := reasons.Lookup(v1alpha1.ReasonPending)
		return fmt.Sprintf("%s: nobody has looked at it yet. %s", what, pending.Text)
	}
	words := []string{fmt.Sprintf("%s: %s is %s with %s since %s (%s ago).",
		what, cause.Type, cause.Status, printers.EscapeTerminal(cause.Reason),
		cause.LastTransitionTime.UTC().Format(time.RFC3339), Age(cause.LastTransitionTime, now))}
	if reason, ok := reasons.Lookup(cause.Reason); ok {
		words = append(words, reason.Text)
	} else {
		words = append(words, "This dynconf does not know the reason: it is older than the hub or the agent.")
	}
	if cause.Message != "" && !reasons.Fine(cause) {
		words = append(words, "It says: "+printers.EscapeTerminal(strings.ReplaceAll(cause.Message, "\n", " ")))
	}
	return strings.Join(words, " ")
}

// Age is how long ago a time was, as kubectl writes it; <unknown> for none.
func Age(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
