package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/tracing"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// apply applies a delivery, as a part of its trace, and takes the time.
func (r *Reconciler) apply(ctx context.Context, a *answer, d apply.Desired) (apply.Result, error) {
	ctx, span := tracing.Start(tracing.Continue(ctx, a.deliver.GetTraceparent()), tracing.Apply,
		tracing.About{Namespace: d.Render.Namespace, Name: d.Render.Name})
	began := time.Now()
	result, err := r.applier.Apply(ctx, d)
	applySeconds.Observe(time.Since(began).Seconds())
	if err != nil {
		tracing.End(span, apply.ReasonOf(err))
		return result, err
	}
	rendersTotal.Inc()
	lastRender.SetToCurrentTime()
	tracing.End(span, v1alpha1.ReasonApplied)
	return result, nil
}

// logState writes the one line of a Render whose state changed: what is tried again
// with the same end is no change, and why the first answer is waited for says the agent's
// own line.
func logState(ctx context.Context, before *metav1.Condition, v *verdict) {
	if v == nil || before != nil && (v.first || before.Status == v.ready.status && before.Reason == v.ready.reason && before.Message == v.ready.message) {
		return
	}
	reason := v.ready.reason
	for _, cause := range []*state{v.fetched, v.applied} {
		if cause != nil && cause.status == metav1.ConditionFalse {
			reason = cause.reason
		}
	}
	ctrl.LoggerFrom(ctx).Info("State changed", "ready", v.ready.status, "reason", reason)
}

// logUnwritten writes one line for a Render whose status, or former target, cannot be
// written; times is how often in a row.
func logUnwritten(ctx context.Context, failed error, times int, again time.Duration) {
	log := ctrl.LoggerFrom(ctx).WithValues("retryIn", again.String())
	if times == 1 {
		log.Error(failed, "Status or former target not written")
		return
	}
	log.V(1).Info("Status or former target still not written", "cause", failed.Error())
}
