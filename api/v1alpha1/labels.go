package v1alpha1

const (
	// LabelManagedBy marks every target the spoke writes; its value is
	// ManagedByValue. Targets are watched by this label only.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByValue is the value of LabelManagedBy on a target.
	ManagedByValue = "dynamic-config"
	// LabelRenderUID is the UID of the Render that a target belongs to. It is
	// the marker of ownership where deletionPolicy Retain forbids an
	// ownerReference.
	LabelRenderUID = "dynamic-config.rs/render-uid"
	// AnnotationRender is the name of the Render that a target belongs to.
	AnnotationRender = "dynamic-config.rs/render"
	// AnnotationContentID is the opaque identity of the content in a target: a
	// keyed hash made by the hub, from which nothing can be guessed.
	AnnotationContentID = "dynamic-config.rs/content-id"
	// AnnotationRenderGeneration is the generation of the Render whose content a
	// target holds.
	AnnotationRenderGeneration = "dynamic-config.rs/render-generation"
	// AnnotationDataKeys is how many data keys the spoke wrote to a target. Fewer
	// owned keys than that in the target's managed fields mean that somebody
	// changed or removed one, which tells drift without reading any value.
	AnnotationDataKeys = "dynamic-config.rs/data-keys"
	// AnnotationSecretType is the type of a Secret target, so that a change of
	// spec.target.type is seen in the target's metadata alone.
	AnnotationSecretType = "dynamic-config.rs/secret-type"
	// AnnotationSyncRequestedAt on a Render asks for a fetch now; the value is
	// echoed in status.lastHandledSync once handled.
	AnnotationSyncRequestedAt = "dynamic-config.rs/sync-requested-at"
	// FieldManager is the server-side apply field manager of the spoke.
	FieldManager = "dynamic-config-spoke"
)
