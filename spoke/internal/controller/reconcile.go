package controller

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// believeWritten is how long our own write is believed over a cache that does not
// show it. A watch is late by milliseconds; seconds mean that it never will.
const believeWritten = 5 * time.Second

// Reconcile looks at one Render: it uses the hub's answer if there is one, writes
// the status, lets go of former targets and tells the hub what the Render asks.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	render := &v1alpha1.DynamicConfigRender{}
	err := r.cache.Get(ctx, request.NamespacedName, render)
	if apierrors.IsNotFound(err) || (err == nil && !render.DeletionTimestamp.IsZero()) {
		r.entries.drop(request.NamespacedName)
		return ctrl.Result{}, r.publish(ctx, request.NamespacedName)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	known := r.entries.of(request.NamespacedName)
	if v := r.handle(ctx, render, known); v != nil {
		known.verdict = v.after(known.verdict)
	}
	failed := errors.Join(r.report(ctx, render, known), r.publish(ctx, request.NamespacedName), r.releaseFormer(ctx, render, known))
	wake := known.comeBack(failed, time.Now())
	if failed != nil {
		logUnwritten(ctx, failed, known.unwritten, wake)
	}
	// With an error the controller would go by its own delays, and the hub waits to be
	// asked also while nothing can be reported.
	return ctrl.Result{RequeueAfter: wake}, nil
}

// handle uses the hub's answer, if there is one for this Render as it is now. It
// returns nil when there is nothing to say.
func (r *Reconciler) handle(ctx context.Context, render *v1alpha1.DynamicConfigRender, known *entry) *verdict {
	a := r.entries.take(client.ObjectKeyFromObject(render))
	if render.Spec.Suspend {
		if a != nil {
			a.result(fleetv1.DeliveryResult_CODE_SUPERSEDED, "", "")
		}
		return suspended(render)
	}
	switch {
	case a == nil:
		if known.verdict != nil || !r.waits(render, known) {
			return nil
		}
		return pending(render, r.troubles.get().waitingMessage())
	case a.ref.GetUid() != string(render.UID), a.generation != render.Generation:
		a.result(fleetv1.DeliveryResult_CODE_SUPERSEDED, "", "")
		return nil
	case a.deliver != nil:
		return r.deliver(ctx, render, known, a)
	case a.current != nil:
		known.succeed(nil)
		return rendered(a, a.current.GetHandledSync(), false)
	default:
		// The hub comes back by itself when it has content.
		known.succeed(nil)
		return refused(a)
	}
}

// waits says whether a Render that has no answer should say so, or say why anew.
func (r *Reconciler) waits(render *v1alpha1.DynamicConfigRender, known *entry) bool {
	if apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady) == nil {
		return known.isPending(time.Now())
	}
	return r.waitingMoves(render)
}

// deliver applies content and answers the hub.
func (r *Reconciler) deliver(ctx context.Context, render *v1alpha1.DynamicConfigRender, known *entry, a *answer) *verdict {
	w := &written{uid: render.UID, generation: render.Generation, contentID: a.deliver.GetContentId()}
	if target := r.cachedTarget(ctx, render); known.isFight(w) {
		return r.unwritten(ctx, a, apply.Fight(render, target))
	}
	result, err := r.apply(ctx, a, apply.Desired{
		Render: render, ContentID: w.contentID, Data: a.deliver.GetData(),
	})
	if err != nil {
		known.fail(err, resourceVersionOf(r.cachedTarget(ctx, render)))
		return r.unwritten(ctx, a, err)
	}
	w.resourceVersion, w.until = result.ResourceVersion, time.Now().Add(believeWritten)
	known.succeed(w)
	code := fleetv1.DeliveryResult_CODE_UNCHANGED
	if result.Written {
		code = fleetv1.DeliveryResult_CODE_APPLIED
		ctrl.LoggerFrom(ctx).Info("Target written", "target", render.Spec.Target.Kind()+"/"+render.Spec.Target.Name())
	}
	applyTotal.WithLabelValues(v1alpha1.ReasonApplied).Inc()
	a.result(code, "", "")
	return rendered(a, a.deliver.GetHandledSync(), result.NewContent)
}

// unwritten tells everybody that content was not applied, and why.
func (r *Reconciler) unwritten(ctx context.Context, a *answer, err error) *verdict {
	code := fleetv1.DeliveryResult_CODE_FAILED
	if !retryable(err) {
		code = fleetv1.DeliveryResult_CODE_REJECTED
	}
	reason := apply.ReasonOf(err)
	applyTotal.WithLabelValues(reason).Inc()
	countFailure(reason)
	ctrl.LoggerFrom(ctx).V(1).Info("Target not written", "reason", reason, "cause", err.Error())
	a.result(code, reason, err.Error())
	return unapplied(a, err)
}

// publish tells the hub what a Render asks for now. Cache reads only go forward,
// and with the lock what is told does too.
func (r *Reconciler) publish(ctx context.Context, key client.ObjectKey) error {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	render := &v1alpha1.DynamicConfigRender{}
	err := r.cache.Get(ctx, key, render)
	if apierrors.IsNotFound(err) || (err == nil && !render.DeletionTimestamp.IsZero()) {
		r.upstream.Remove(&fleetv1.RenderRef{Namespace: key.Namespace, Name: key.Name})
		return nil
	}
	if err != nil {
		return err
	}
	known := r.entries.of(key)
	target := r.cachedTarget(ctx, render)
	spec := specOf(render, known.have(render, target, time.Now()))
	if known.askAgain(resourceVersionOf(target), time.Now()) {
		r.upstream.Ask(spec)
	} else {
		r.upstream.Upsert(spec)
	}
	return nil
}

// cachedTarget is the metadata of a Render's target as cached; nil for none, and
// for one that is not marked as ours.
func (r *Reconciler) cachedTarget(ctx context.Context, render *v1alpha1.DynamicConfigRender) *metav1.PartialObjectMetadata {
	target := apply.Metadata(render.Spec.Target.Kind())
	key := client.ObjectKey{Namespace: render.Namespace, Name: render.Spec.Target.Name()}
	if err := r.cache.Get(ctx, key, target); err != nil {
		return nil // a cache fails only by not having it
	}
	return target
}

// releaseFormer lets go of objects that were the Render's target before, once the
// present one holds its content.
func (r *Reconciler) releaseFormer(ctx context.Context, render *v1alpha1.DynamicConfigRender, known *entry) error {
	if known.have(render, r.cachedTarget(ctx, render), time.Now()) == nil {
		return nil
	}
	var failed error
	for _, kind := range targetKinds {
		var marked metav1.PartialObjectMetadataList
		marked.SetGroupVersionKind(apply.Metadata(kind).GroupVersionKind())
		err := r.cache.List(ctx, &marked, client.InNamespace(render.Namespace),
			client.MatchingFields{indexRenderUID: string(render.UID)})
		failed = errors.Join(failed, err)
		for _, object := range marked.Items {
			if kind == render.Spec.Target.Kind() && object.Name == render.Spec.Target.Name() {
				continue
			}
			if apply.Former(render, &object) {
				failed = errors.Join(failed, r.applier.Release(ctx, render, kind, object.Name))
			}
		}
	}
	return failed
}

// resourceVersionOf is empty for no object.
func resourceVersionOf(target *metav1.PartialObjectMetadata) string {
	if target == nil {
		return ""
	}
	return target.ResourceVersion
}
