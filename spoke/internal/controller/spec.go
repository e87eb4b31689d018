package controller

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

var shapes = map[v1alpha1.Shape]fleetv1.Shape{
	v1alpha1.ShapeFile:       fleetv1.Shape_SHAPE_FILE,
	v1alpha1.ShapeEnvEntries: fleetv1.Shape_SHAPE_ENV_ENTRIES,
	v1alpha1.ShapeEntries:    fleetv1.Shape_SHAPE_ENTRIES,
}

// specOf is what a Render asks of the hub, given the identity of the content that
// its target holds unharmed.
func specOf(render *v1alpha1.DynamicConfigRender, have []byte) *fleetv1.RenderSpec {
	kind := fleetv1.ClassKind_CLASS_KIND_NAMESPACED
	if render.Spec.EffectiveClassKind() == v1alpha1.ClassKindCluster {
		kind = fleetv1.ClassKind_CLASS_KIND_CLUSTER
	}
	return &fleetv1.RenderSpec{
		Ref:             refOf(render),
		Generation:      render.Generation,
		Class:           render.Spec.Class,
		ClassKind:       kind,
		Key:             render.Spec.Key,
		Format:          string(render.Spec.Format),
		Section:         render.Spec.Section,
		Interval:        durationpb.New(time.Duration(render.Spec.EffectiveInterval()) * time.Second),
		Suspend:         render.Spec.Suspend,
		Target:          targetOf(&render.Spec.Target),
		SyncRequestedAt: syncRequest(render),
		HaveContentId:   have,
	}
}

// syncRequest is the value of the annotation that asks for a fetch, until it is
// handled: a hub that knows nothing of the Render would fetch for it again.
func syncRequest(render *v1alpha1.DynamicConfigRender) string {
	asked := render.Annotations[v1alpha1.AnnotationSyncRequestedAt]
	if asked == render.Status.LastHandledSync {
		return ""
	}
	return asked
}

// refOf names a Render.
func refOf(render *v1alpha1.DynamicConfigRender) *fleetv1.RenderRef {
	return &fleetv1.RenderRef{Namespace: render.Namespace, Name: render.Name, Uid: string(render.UID)}
}

// targetOf is the target as far as the hub needs to know it.
func targetOf(target *v1alpha1.RenderTarget) *fleetv1.Target {
	kind := fleetv1.TargetKind_TARGET_KIND_CONFIG_MAP
	if target.IsSecret() {
		kind = fleetv1.TargetKind_TARGET_KIND_SECRET
	}
	return &fleetv1.Target{
		Kind: kind, Name: target.Name(), Shape: shapes[target.EffectiveShape()], File: target.File,
	}
}
