package controller

import (
	"context"
	"time"

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
		countFailure(apply.ReasonOf(err))
		tracing.End(span, apply.ReasonOf(err))
		return result, err
	}
	rendersTotal.Inc()
	lastRender.SetToCurrentTime()
	tracing.End(span, v1alpha1.ReasonApplied)
	return result, nil
}
