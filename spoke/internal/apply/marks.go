package apply

import (
	"encoding/hex"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// renderKind is the kind of the owner of a target.
const renderKind = "DynamicConfigRender"

// labelsFor are the labels of a Render's target.
func labelsFor(render *v1alpha1.DynamicConfigRender) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedByValue,
		v1alpha1.LabelRenderUID: string(render.UID),
	}
}

// annotationsFor are the annotations of a Render's target.
func annotationsFor(render *v1alpha1.DynamicConfigRender, contentID []byte, keys int) map[string]string {
	annotations := map[string]string{
		v1alpha1.AnnotationRender:           render.Name,
		v1alpha1.AnnotationContentID:        hex.EncodeToString(contentID),
		v1alpha1.AnnotationRenderGeneration: strconv.FormatInt(render.Generation, 10),
		v1alpha1.AnnotationDataKeys:         strconv.Itoa(keys),
	}
	if render.Spec.Target.IsSecret() {
		annotations[v1alpha1.AnnotationSecretType] = secretType(render)
	}
	return annotations
}

// secretType is spec.target.type with its default.
func secretType(render *v1alpha1.DynamicConfigRender) string {
	if render.Spec.Target.Type == "" {
		return string(corev1.SecretTypeOpaque)
	}
	return render.Spec.Target.Type
}

// Intact returns the identity of the content that a target holds for a Render, or
// nil when it holds none, somebody changed it, or its ownership is not what the
// Render asks for. It reads metadata only; target may be nil.
func Intact(render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata) []byte {
	if target == nil || !target.DeletionTimestamp.IsZero() || !marked(render, target) {
		return nil
	}
	return heldContent(target)
}

// heldContent returns the identity of the content that the spoke wrote to a
// target and that nobody changed since; nil for none.
func heldContent(target *metav1.PartialObjectMetadata) []byte {
	if target == nil {
		return nil
	}
	owned, err := ownershipOf(target.ManagedFields)
	if err != nil {
		return nil
	}
	recorded, err := strconv.Atoi(target.Annotations[v1alpha1.AnnotationDataKeys])
	if err != nil || countDataKeys(owned.ours) != recorded {
		return nil
	}
	contentID, err := hex.DecodeString(target.Annotations[v1alpha1.AnnotationContentID])
	if err != nil || len(contentID) == 0 {
		return nil
	}
	return contentID
}

// marked says whether the marks of the target are those of the Render.
func marked(render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata) bool {
	for label, value := range labelsFor(render) {
		if target.Labels[label] != value {
			return false
		}
	}
	if target.Annotations[v1alpha1.AnnotationRender] != render.Name {
		return false
	}
	if render.Spec.Target.IsSecret() && target.Annotations[v1alpha1.AnnotationSecretType] != secretType(render) {
		return false
	}
	owned := metav1.IsControlledBy(target, render)
	return owned == (render.Spec.Target.EffectiveDeletionPolicy() == v1alpha1.DeletionDelete)
}

// ownerUID is the UID of the Render that a target belongs to by its marks, or
// empty when it bears none.
func ownerUID(render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata) types.UID {
	if uid := target.Labels[v1alpha1.LabelRenderUID]; uid != "" {
		return types.UID(uid)
	}
	if ref := metav1.GetControllerOf(target); ref != nil && isRender(ref) {
		return ref.UID
	}
	// Somebody took the label off. The managed fields are the server's own record
	// of who wrote the keys, and Release drops them with the label.
	if target.Annotations[v1alpha1.AnnotationRender] == render.Name && wroteKeys(target) {
		return render.UID
	}
	return ""
}

// written says whether the spoke wrote an object. The label alone says nothing: whoever
// copies an object copies its labels. Who wrote it is the API server's own record.
func written(object *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(object.ManagedFields, isOurs)
}

// wroteKeys says whether the spoke still owns a data key of the target.
func wroteKeys(target *metav1.PartialObjectMetadata) bool {
	owned, err := ownershipOf(target.ManagedFields)
	return err == nil && countDataKeys(owned.ours) > 0
}

// isRender says whether an owner is a Render.
func isRender(ref *metav1.OwnerReference) bool {
	return ref.Kind == renderKind && ref.APIVersion == v1alpha1.GroupVersion.String()
}
