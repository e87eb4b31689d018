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
	"dynamic-config.rs/fleet/spoke/internal/redact"
)

// maxStatusAttempts bounds how often a status is written anew because the Render
// changed meanwhile; then the Render is reconciled again.
const maxStatusAttempts = 5

// report writes the status when it changes by the entry's verdict, if there is
// one, or by the hub being lost or found.
func (r *Reconciler) report(ctx context.Context, render *v1alpha1.DynamicConfigRender, known *entry) error {
	if known.verdict == nil && !r.staleMoves(render) {
		return nil // also where the cache is late: there is nothing to compare
	}
	// What we wrote last must not be compared with what was there before it.
	current := known.reported == "" || notOlder(render.ResourceVersion, known.reported)
	for attempt := 1; ; attempt++ {
		if !current {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(render), render); err != nil {
				return client.IgnoreNotFound(redact.ServerText(err))
			}
		}
		err := r.reportOnce(ctx, render, known)
		if err == nil || apierrors.IsNotFound(err) {
			known.verdict = nil
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == maxStatusAttempts {
			return fmt.Errorf("write the status: %w", redact.ServerText(err))
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
	return nil
}

// announce makes an event when reason or message of Ready changed. That a new Render is
// rendered says its status, and an event for each would double the writes of a first
// start; a namespace that is being deleted takes none.
func (r *Reconciler) announce(render *v1alpha1.DynamicConfigRender, before *metav1.Condition, v *verdict) {
	if v == nil || !v.isNews(before) || (v.applied != nil && v.applied.reason == v1alpha1.ReasonNamespaceTerminating) {
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
