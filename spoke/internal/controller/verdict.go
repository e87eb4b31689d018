package controller

import (
	"cmp"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// state is status, reason and message of one condition.
type state struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

// verdict is the outcome of one look at a Render.
type verdict struct {
	uid        string
	generation int64
	// first says that there was no answer yet.
	first bool
	ready state
	// fetched and applied are nil where the outcome says nothing of them.
	fetched, applied *state
	// stalled is nil where nobody has to change anything.
	stalled *state
	// unfetched says that it is not known whether the document can be fetched.
	unfetched bool
	// handledSync echoes a request for a fetch; empty for none.
	handledSync string
	// newContent says that the content of the target changed.
	newContent bool
}

// after is the verdict that follows another one, nil for none, which could not be
// reported: that the content of the target changed is not lost with it.
func (v *verdict) after(unreported *verdict) *verdict {
	if unreported != nil && unreported.uid == v.uid {
		v.newContent = v.newContent || unreported.newContent
	}
	return v
}

// The good states.
var (
	stateRendered = state{metav1.ConditionTrue, v1alpha1.ReasonRendered, "The target holds the current document."}
	stateFetched  = state{metav1.ConditionTrue, v1alpha1.ReasonFetched, "The hub has the document."}
	stateApplied  = state{metav1.ConditionTrue, v1alpha1.ReasonApplied, "The target holds what was rendered."}
)

// pendingAfter is how long the hub's first answer is waited for before a Render says
// so. A hub at hand answers in milliseconds, and each new Render then costs one write
// of its status and not two.
const pendingAfter = time.Second

// pending is the verdict on a Render that nobody has answered yet.
func pending(render *v1alpha1.DynamicConfigRender, message string) *verdict {
	return &verdict{
		uid: string(render.UID), generation: render.Generation, first: true,
		ready: state{metav1.ConditionUnknown, v1alpha1.ReasonPending, message},
	}
}

// suspended is the verdict on a Render that is not to be looked at: Ready stays what it
// was, and Fetched says why it does not move. It is nil when the status says so already.
func suspended(render *v1alpha1.DynamicConfigRender) *verdict {
	fetched := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionFetched)
	if fetched != nil && fetched.Reason == v1alpha1.ReasonSuspended && fetched.ObservedGeneration == render.Generation {
		return nil
	}
	v := pending(render, "Suspended before the first render.")
	v.first = false
	if ready := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Reason != v1alpha1.ReasonPending {
		v.ready = state{ready.Status, ready.Reason, ready.Message}
	}
	if stalled := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil {
		v.stalled = &state{stalled.Status, stalled.Reason, stalled.Message}
	}
	v.fetched = &state{metav1.ConditionUnknown, v1alpha1.ReasonSuspended, "spec.suspend is set: nothing is fetched or written."}
	return v
}

// rendered is the verdict on a target that holds the current document.
func rendered(a *answer, handledSync string, newContent bool) *verdict {
	fetched, applied := stateFetched, stateApplied
	return &verdict{
		uid: a.ref.GetUid(), generation: a.generation,
		ready: stateRendered, fetched: &fetched, applied: &applied,
		handledSync: handledSync, newContent: newContent,
	}
}

// unapplied is the verdict on content that was not written.
func unapplied(a *answer, err error) *verdict {
	fetched := stateFetched
	v := &verdict{
		uid: a.ref.GetUid(), generation: a.generation,
		ready:       state{metav1.ConditionFalse, v1alpha1.ReasonRenderFailed, err.Error()},
		fetched:     &fetched,
		applied:     &state{metav1.ConditionFalse, apply.ReasonOf(err), err.Error()},
		handledSync: a.deliver.GetHandledSync(),
	}
	v.stall(v.applied.reason)
	return v
}

// refused is the verdict of the hub.
func refused(a *answer) *verdict {
	v := &verdict{
		uid: a.ref.GetUid(), generation: a.generation,
		ready: readyOf(a.refusal), handledSync: a.refusal.GetHandledSync(),
	}
	cause := &state{metav1.ConditionFalse, a.refusal.GetCauseReason(), a.refusal.GetMessage()}
	switch {
	case cause.reason == "":
		v.unfetched = true
	case a.refusal.GetCauseCondition() == v1alpha1.ConditionFetched:
		v.fetched = cause
	case a.refusal.GetCauseCondition() == v1alpha1.ConditionApplied:
		fetched := stateFetched // what cannot be rendered was fetched
		v.fetched, v.applied = &fetched, cause
	}
	v.stall(cmp.Or(cause.reason, v.ready.reason))
	return v
}

// lasting are the reasons that last until a person changes the Render, its document,
// its target, or whom its class serves. Everything else may pass by itself: a store
// comes back, a class or a document is about to be made.
var lasting = map[string]bool{
	v1alpha1.ReasonClassNotAllowed:    true,
	v1alpha1.ReasonDocumentInvalid:    true,
	v1alpha1.ReasonDocumentTooLarge:   true,
	v1alpha1.ReasonKeyCollision:       true,
	v1alpha1.ReasonKeyInvalid:         true,
	v1alpha1.ReasonSecrecyDowngrade:   true,
	v1alpha1.ReasonShapeInvalid:       true,
	v1alpha1.ReasonTargetConflict:     true,
	v1alpha1.ReasonTargetImmutable:    true,
	v1alpha1.ReasonTargetInvalid:      true,
	v1alpha1.ReasonTargetNotOwned:     true,
	v1alpha1.ReasonTargetTypeConflict: true,
}

// stall says that somebody has to change something, where the cause is such.
func (v *verdict) stall(cause string) {
	if lasting[cause] {
		v.stalled = &state{metav1.ConditionTrue, cause, v.ready.message}
	}
}

// readyOf is the Ready condition of a refusal. Its reasons are a closed set, also
// when a newer hub knows more.
func readyOf(refusal *fleetv1.Refusal) state {
	switch reason := refusal.GetReadyReason(); reason {
	case v1alpha1.ReasonClassNotFound, v1alpha1.ReasonClassNotAllowed, v1alpha1.ReasonRenderFailed:
		return state{metav1.ConditionFalse, reason, refusal.GetMessage()}
	case v1alpha1.ReasonPending:
		return state{metav1.ConditionUnknown, reason, refusal.GetMessage()}
	default:
		return state{metav1.ConditionFalse, v1alpha1.ReasonRenderFailed, refusal.GetMessage()}
	}
}

// conclude puts a verdict into a status. It is the only place that sets
// conditions, Stale aside.
func (v *verdict) conclude(status *v1alpha1.DynamicConfigRenderStatus, now metav1.Time) {
	status.ObservedGeneration = v.generation
	v.set(status, v1alpha1.ConditionReady, &v.ready)
	v.set(status, v1alpha1.ConditionFetched, v.fetched)
	v.set(status, v1alpha1.ConditionApplied, v.applied)
	v.set(status, v1alpha1.ConditionStalled, v.stalled)
	if v.stalled == nil {
		apimeta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStalled)
	}
	if v.unfetched {
		apimeta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionFetched)
	}
	status.LastError = nil
	if v.ready.status == metav1.ConditionFalse {
		status.LastError = &v.ready.message
	}
	if v.handledSync != "" {
		status.LastHandledSync = v.handledSync
	}
	if v.newContent || (status.RenderedAt == nil && v.ready.status == metav1.ConditionTrue) {
		status.RenderedAt = &now
	}
}

// set sets one condition; the time moves only when the status does.
func (v *verdict) set(status *v1alpha1.DynamicConfigRenderStatus, condition string, s *state) {
	if s == nil {
		return
	}
	apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: condition, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: v.generation,
	})
}

// isNews says whether somebody who saw Ready as it was before should be told.
func (v *verdict) isNews(before *metav1.Condition) bool {
	if v.ready.reason == v1alpha1.ReasonPending {
		return false
	}
	if before == nil || before.Reason == v1alpha1.ReasonPending {
		return v.ready.status != metav1.ConditionTrue
	}
	return before.Reason != v.ready.reason || before.Message != v.ready.message
}

// speaksOf says whether a verdict, which may be nil, is about this Render. To wait
// for a first answer is no news to one that had an answer.
func (v *verdict) speaksOf(render *v1alpha1.DynamicConfigRender) bool {
	if v == nil || v.uid != string(render.UID) {
		return false
	}
	ready := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady)
	return !v.first || ready == nil || isWaiting(ready.Reason, ready.Message)
}
