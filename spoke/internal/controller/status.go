package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// maxStatusAttempts bounds how often a status is written anew because the Render
// changed meanwhile; then the Render is reconciled again.
const maxStatusAttempts = 5

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
	// unfetched says that it is not known whether the document can be fetched.
	unfetched bool
	// handledSync echoes a request for a fetch; empty for none.
	handledSync string
	// newContent says that the content of the target changed.
	newContent bool
}

// The good states.
var (
	stateRendered = state{metav1.ConditionTrue, v1alpha1.ReasonRendered, "The target holds the current document."}
	stateFetched  = state{metav1.ConditionTrue, v1alpha1.ReasonFetched, "The hub has the document."}
	stateApplied  = state{metav1.ConditionTrue, v1alpha1.ReasonApplied, "The target holds what was rendered."}
)

// pending is the verdict on a Render that nobody has answered yet.
func pending(render *v1alpha1.DynamicConfigRender) *verdict {
	message := "Waiting for the hub's first answer."
	if render.Spec.Suspend {
		message = "Suspended before the first render."
	}
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
	v := pending(render)
	v.first = false
	if ready := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Reason != v1alpha1.ReasonPending {
		v.ready = state{ready.Status, ready.Reason, ready.Message}
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
	return &verdict{
		uid: a.ref.GetUid(), generation: a.generation,
		ready:       state{metav1.ConditionFalse, v1alpha1.ReasonRenderFailed, err.Error()},
		fetched:     &fetched,
		applied:     &state{metav1.ConditionFalse, apply.ReasonOf(err), err.Error()},
		handledSync: a.deliver.GetHandledSync(),
	}
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
	return v
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

// report writes the status when it changes by the entry's verdict, if there is
// one, or by the hub being lost or found.
func (r *Reconciler) report(ctx context.Context, render *v1alpha1.DynamicConfigRender, known *entry) error {
	// What we wrote last must not be compared with what was there before it.
	current := known.reported == "" || notOlder(render.ResourceVersion, known.reported)
	for attempt := 1; ; attempt++ {
		if !current {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(render), render); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		err := r.reportOnce(ctx, render, known)
		if err == nil || apierrors.IsNotFound(err) {
			known.verdict = nil
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == maxStatusAttempts {
			return fmt.Errorf("write the status: %w", err)
		}
		current = false
	}
}

// reportOnce writes the status of a Render as it was read.
func (r *Reconciler) reportOnce(ctx context.Context, render *v1alpha1.DynamicConfigRender, known *entry) error {
	v := known.verdict
	if !v.speaksOf(render) {
		v = nil
	}
	ready := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady).DeepCopy()
	changed := render.DeepCopy()
	if v != nil {
		v.conclude(&changed.Status, metav1.Now())
	}
	r.setStale(changed)
	if equality.Semantic.DeepEqual(render.Status, changed.Status) {
		return nil
	}
	if err := r.client.Status().Update(ctx, changed, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return err
	}
	known.reported = changed.ResourceVersion
	r.announce(changed, ready, v)
	logState(ctx, ready, v)
	return nil
}

// speaksOf says whether a verdict, which may be nil, is about this Render. To wait
// for a first answer is no news to one that had an answer.
func (v *verdict) speaksOf(render *v1alpha1.DynamicConfigRender) bool {
	if v == nil || v.uid != string(render.UID) {
		return false
	}
	return !v.first || apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady) == nil
}

// announce makes an event when reason or message of Ready changed.
func (r *Reconciler) announce(render *v1alpha1.DynamicConfigRender, before *metav1.Condition, v *verdict) {
	if v == nil || v.ready.reason == v1alpha1.ReasonPending {
		return
	}
	if before != nil && before.Reason == v.ready.reason && before.Message == v.ready.message {
		return
	}
	kind, reason := corev1.EventTypeNormal, v.ready.reason
	if v.ready.status != metav1.ConditionTrue {
		kind = corev1.EventTypeWarning
		for _, cause := range []*state{v.fetched, v.applied} {
			if cause != nil && cause.status == metav1.ConditionFalse {
				reason = cause.reason
			}
		}
	}
	r.recorder.Eventf(render, nil, kind, reason, "Render", "%s", v.ready.message)
}
