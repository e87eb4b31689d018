package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/reasons"
)

// Kind is the kind of an object, in the words of the page of reasons.
type Kind string

// The kinds that have conditions.
const (
	Render  Kind = "Render"
	Class   Kind = "class"
	Cluster Kind = "SpokeCluster"
)

// Object is what is explained.
type Object struct {
	Kind Kind
	// Title names the object in one line.
	Title      string
	Conditions []metav1.Condition
	// New says of a cluster that no agent of it ever had a session.
	New bool
}

// NeverEnrolled says whether what is the matter with a cluster is that no agent came yet,
// and not that one was lost.
func NeverEnrolled(conditions []metav1.Condition, isNew bool) bool {
	cause := reasons.Cause(conditions)
	return isNew && cause != nil && cause.Reason == v1alpha1.ReasonDisconnected
}

// Paragraph says in one paragraph what is the matter with an object: what fails, since
// when, whose it is and what to do.
func Paragraph(o *Object, now time.Time) string {
	cause := reasons.Cause(o.Conditions)
	if cause == nil {
		return o.Title + ": nobody has looked at it yet. " + unseen(o.Kind)
	}
	state := fmt.Sprintf("%s has been %s since %s (%s ago), now with %s.", cause.Type, cause.Status,
		cause.LastTransitionTime.UTC().Format(time.RFC3339), Age(cause.LastTransitionTime, now), printers.EscapeTerminal(cause.Reason))
	if NeverEnrolled(o.Conditions, o.New) {
		return o.Title + ": no agent has enrolled yet: " + state + " The workload cluster's administrator's: install the agent, " +
			"as dynconf cluster enroll says; where it runs, its log says what is in the way."
	}
	words := []string{o.Title + ": " + state}
	if reason, ok := reasons.Lookup(cause.Reason); ok {
		words = append(words, about(o.Kind, reason.Text))
	} else {
		words = append(words, "This dynconf does not know the reason: it is older than the hub or the agent.")
	}
	if cause.Message != "" && !reasons.Fine(cause) {
		words = append(words, "It says: "+printers.EscapeTerminal(strings.ReplaceAll(cause.Message, "\n", " ")))
	}
	return strings.Join(words, " ")
}

// unseen says whose an object without conditions is.
func unseen(kind Kind) string {
	if pending, ok := reasons.Lookup(v1alpha1.ReasonPending); ok && kind == Render {
		return pending.Text
	}
	return "The platform team's, if it stays: does a hub run in this cluster? dynconf doctor looks."
}

// about leaves out the sentences that speak of another kind of object.
func about(kind Kind, text string) string {
	sentences := slices.DeleteFunc(strings.SplitAfter(text, ". "), func(s string) bool {
		return strings.HasPrefix(s, "On a ") && !strings.HasPrefix(s, "On a "+string(kind))
	})
	return strings.Join(sentences, "")
}

// Age is how long ago a time was, as kubectl writes it; <unknown> for none.
func Age(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
