package web

import (
	"cmp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/internal/reasons"
)

// maxMessage is how many bytes of a message a page shows.
const maxMessage = 1000

// Tone is how a state is to be taken. A page repeats in colour what its words say.
type Tone string

// The tones.
const (
	good Tone = "good"
	bad  Tone = "bad"
	wait Tone = "wait"
	off  Tone = "off" // somebody wants it so
)

// Finding is a state with its reason, and what the page of reasons says of it.
type Finding struct {
	Word Word
	Tone Tone
	// Reason, of which condition, what it means and whose it is.
	Reason, Condition, Text, Owner string
	Message                        string
}

// Word names a state in a table.
type Word string

// finding completes a state by what its reason means.
func finding(word Word, tone Tone, condition, reason, message string) Finding {
	known, _ := reasons.Lookup(reason)
	return Finding{
		Word: word, Tone: tone, Condition: condition, Reason: plain(reason), Message: plain(message),
		Text: known.Text, Owner: cmp.Or(known.Owner, reasons.Nobody),
	}
}

// stateOf says how a Render is.
func stateOf(r *fleet.RenderStatus) Finding {
	switch {
	case r.Suspended:
		return finding("suspended", off, v1alpha1.ConditionFetched, v1alpha1.ReasonSuspended, "")
	case !r.Settled:
		return waiting(r)
	case r.Failure != "":
		return finding("failed", bad, v1alpha1.ConditionApplied, r.Failure, "the cluster says more in the status of the Render")
	case r.Refusal != nil:
		no := r.Refusal
		return finding("failed", bad, cmp.Or(no.CauseCondition, v1alpha1.ConditionReady), cmp.Or(no.CauseReason, no.ReadyReason), no.Message)
	}
	return finding("ready", good, v1alpha1.ConditionReady, v1alpha1.ReasonRendered, "")
}

// waiting is nobody's problem while the agent is connected, which it is here.
func waiting(r *fleet.RenderStatus) Finding {
	f := finding("waiting", wait, v1alpha1.ConditionFetched, v1alpha1.ReasonPending, "the hub waits for the document")
	f.Text, f.Owner = "There is no answer yet. Where that stays, the class or the cluster is slow.", reasons.Nobody
	if !r.Sent.IsZero() {
		f.Condition, f.Message = v1alpha1.ConditionApplied, "delivered, and the cluster has not answered"
	}
	return f
}

// conditionsOf says how an object is by its conditions, and since when.
func conditionsOf(conditions []metav1.Condition, ready, notReady Word) (Finding, time.Time) {
	cause := reasons.Cause(conditions)
	if cause == nil {
		return finding("waiting", wait, v1alpha1.ConditionReady, v1alpha1.ReasonPending, ""), time.Time{}
	}
	word, tone := notReady, bad
	if reasons.Fine(cause) {
		word, tone = ready, good
	}
	return finding(word, tone, cause.Type, cause.Reason, cause.Message), cause.LastTransitionTime.Time
}

// Moment is a time as a page shows it.
type Moment struct {
	// ISO is the time for machines; empty for none. Text is for people.
	ISO, Text string
}

func moment(at time.Time, text func(time.Duration) string, now time.Time) Moment {
	if at.IsZero() {
		return Moment{}
	}
	return Moment{ISO: at.UTC().Format(time.RFC3339), Text: text(now.Sub(at))}
}

// ago says how long ago a time is.
func ago(at, now time.Time) Moment {
	return moment(at, func(d time.Duration) string { return duration.HumanDuration(max(d, 0)) + " ago" }, now)
}

// ahead says how far off a time is.
func ahead(at, now time.Time) Moment {
	return moment(at, func(d time.Duration) string {
		if d > 0 {
			return duration.HumanDuration(d) + " ago"
		}
		return "in " + duration.HumanDuration(-d)
	}, now)
}

// plain keeps text that somebody else chose from acting on who reads it: each character
// that does not print, as those that turn the direction of a line, is shown as the
// replacement character.
func plain(text string) string {
	if len(text) > maxMessage {
		end := maxMessage
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) {
			return utf8.RuneError
		}
		return char
	}, text)
}
