package syncserver

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/internal/reasons"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// unknown stands for an enum value of a newer agent; no such class kind, shape or
// target exists, so the Render is refused and not misread.
const unknown = "unknown"

var classKinds = map[fleetv1.ClassKind]v1alpha1.ClassKind{
	fleetv1.ClassKind_CLASS_KIND_UNSPECIFIED: v1alpha1.ClassKindNamespaced,
	fleetv1.ClassKind_CLASS_KIND_NAMESPACED:  v1alpha1.ClassKindNamespaced,
	fleetv1.ClassKind_CLASS_KIND_CLUSTER:     v1alpha1.ClassKindCluster,
}

var shapes = map[fleetv1.Shape]v1alpha1.Shape{
	fleetv1.Shape_SHAPE_UNSPECIFIED: v1alpha1.ShapeFile,
	fleetv1.Shape_SHAPE_FILE:        v1alpha1.ShapeFile,
	fleetv1.Shape_SHAPE_ENV_ENTRIES: v1alpha1.ShapeEnvEntries,
	fleetv1.Shape_SHAPE_ENTRIES:     v1alpha1.ShapeEntries,
}

var codes = map[fleetv1.DeliveryResult_Code]fleet.Code{
	fleetv1.DeliveryResult_CODE_APPLIED:    fleet.Applied,
	fleetv1.DeliveryResult_CODE_UNCHANGED:  fleet.Applied,
	fleetv1.DeliveryResult_CODE_SUPERSEDED: fleet.Superseded,
}

func idOf(ref *fleetv1.RenderRef) fleet.ID {
	return fleet.ID{Namespace: ref.GetNamespace(), Name: ref.GetName()}
}

// specOf is what the outbox needs of a spec.
func specOf(s *fleetv1.RenderSpec) fleet.Spec {
	kind, namespace := orUnknown(classKinds, s.GetClassKind()), s.GetRef().GetNamespace()
	if kind == v1alpha1.ClassKindCluster {
		namespace = ""
	}
	return fleet.Spec{
		Class: v1alpha1.ClassID(kind, namespace, s.GetClass()),
		ID:    idOf(s.GetRef()), UID: s.GetRef().GetUid(), Generation: s.GetGeneration(), Suspended: s.GetSuspend(),
		SyncRequestedAt: s.GetSyncRequestedAt(), Have: s.GetHaveContentId(),
	}
}

// renderOf is the spec as the object it came from, as far as the hub may know it.
func renderOf(s *fleetv1.RenderSpec) *v1alpha1.DynamicConfigRender {
	interval := int32(s.GetInterval().AsDuration() / time.Second)
	r := &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.GetRef().GetNamespace(), Name: s.GetRef().GetName(),
			UID: types.UID(s.GetRef().GetUid()), Generation: s.GetGeneration(),
		},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: s.GetClass(), ClassKind: orUnknown(classKinds, s.GetClassKind()),
			Key: s.GetKey(), Format: v1alpha1.Format(s.GetFormat()), Section: s.GetSection(),
			Suspend: s.GetSuspend(), Target: targetOf(s.GetTarget()),
		},
	}
	if interval > 0 {
		r.Spec.IntervalSeconds = &interval
	}
	if at := s.GetSyncRequestedAt(); at != "" {
		r.Annotations = map[string]string{v1alpha1.AnnotationSyncRequestedAt: at}
	}
	return r
}

func targetOf(t *fleetv1.Target) v1alpha1.RenderTarget {
	target := v1alpha1.RenderTarget{Shape: orUnknown(shapes, t.GetShape()), File: t.GetFile()}
	switch t.GetKind() {
	case fleetv1.TargetKind_TARGET_KIND_SECRET:
		target.Secret = t.GetName()
	case fleetv1.TargetKind_TARGET_KIND_CONFIG_MAP, fleetv1.TargetKind_TARGET_KIND_UNSPECIFIED:
		// An unknown kind counts as the less secret one, which gets fewer documents.
		target.ConfigMap = t.GetName()
	}
	return target
}

func orUnknown[K comparable, V ~string](known map[K]V, k K) V {
	if v, ok := known[k]; ok {
		return v
	}
	return V(unknown)
}

// resultOf is an answer to a delivery; an unknown code counts as failed. A reason that
// is none of ours is dropped: it may be any text of the cluster.
func resultOf(r *fleetv1.DeliveryResult) fleet.Result {
	code, ok := codes[r.GetCode()]
	if !ok {
		code = fleet.Failed
	}
	reason, _ := reasons.Lookup(r.GetReason())
	return fleet.Result{Nonce: r.GetNonce(), ID: idOf(r.GetRef()), Code: code, Reason: reason.Name}
}

// answerFrame is the frame for one answer of the outbox.
func answerFrame(f fleet.Frame) *fleetv1.SessionResponse {
	a := f.Answer
	ref := &fleetv1.RenderRef{Namespace: f.ID.Namespace, Name: f.ID.Name, Uid: a.UID}
	switch {
	case a.Refusal != nil:
		return &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Refusal{Refusal: &fleetv1.Refusal{
			Ref: ref, Generation: a.Generation, HandledSync: a.HandledSync,
			ReadyReason: a.Refusal.ReadyReason, CauseCondition: a.Refusal.CauseCondition,
			CauseReason: a.Refusal.CauseReason, Message: a.Refusal.Message,
		}}}
	case f.Nonce == 0:
		return &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Current{Current: &fleetv1.Current{
			Ref: ref, Generation: a.Generation, HandledSync: a.HandledSync,
			ContentId: a.Content.ID, SourceVersion: a.Content.SourceVersion,
		}}}
	}
	return &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Deliver{Deliver: &fleetv1.Deliver{
		Nonce: f.Nonce, Ref: ref, Generation: a.Generation, HandledSync: a.HandledSync,
		ContentId: a.Content.ID, SourceVersion: a.Content.SourceVersion, Data: a.Content.Data,
	}}}
}
