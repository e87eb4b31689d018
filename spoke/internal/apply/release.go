package apply

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/redact"
)

// Former says whether an object is a target that the spoke wrote for a Render.
func Former(render *v1alpha1.DynamicConfigRender, object *metav1.PartialObjectMetadata) bool {
	return object.Labels[v1alpha1.LabelRenderUID] == string(render.UID) && object.DeletionTimestamp.IsZero() && written(object)
}

// Release lets go of an object that was the Render's target before it named
// another: it is deleted under Delete, and stays without our marks under Retain.
// It does nothing to an object that is no longer the Render's. Call it only after
// the new target is written.
func (a *Applier) Release(ctx context.Context, render *v1alpha1.DynamicConfigRender, kind, name string) error {
	old := Metadata(kind)
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: name}, old)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the former target: %w", redact.ServerText(err))
	}
	if apierrors.IsNotFound(err) || !Former(render, old) {
		return nil
	}
	ref := metav1.GetControllerOf(old)
	foreign := ref != nil && !isRender(ref)
	if render.Spec.Target.EffectiveDeletionPolicy() == v1alpha1.DeletionDelete && !foreign {
		return a.remove(ctx, old)
	}
	return a.unmark(ctx, render, old)
}

// remove deletes exactly the object that was read.
func (a *Applier) remove(ctx context.Context, old *metav1.PartialObjectMetadata) error {
	err := a.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the former target: %w", redact.ServerText(err))
	}
	return nil
}

// unmark takes off what makes an object ours and leaves its data. Our entry goes
// from the managed fields too, so that the object reads as nobody's.
func (a *Applier) unmark(ctx context.Context, render *v1alpha1.DynamicConfigRender, old *metav1.PartialObjectMetadata) error {
	before := old.DeepCopy()
	if old.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByValue {
		delete(old.Labels, v1alpha1.LabelManagedBy)
	}
	delete(old.Labels, v1alpha1.LabelRenderUID)
	for annotation := range annotationsFor(render, nil, 0) {
		delete(old.Annotations, annotation)
	}
	delete(old.Annotations, v1alpha1.AnnotationSecretType)
	old.OwnerReferences = slices.DeleteFunc(old.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == render.UID
	})
	old.ManagedFields = slices.DeleteFunc(old.ManagedFields, isOurs)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.Client.Patch(ctx, old, patch, client.FieldOwner(v1alpha1.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("unmark the former target: %w", redact.ServerText(err))
	}
	return nil
}
