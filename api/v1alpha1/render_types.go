package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultIntervalSeconds is the interval of a Render that states none.
const DefaultIntervalSeconds int32 = 15

// ClassKind names the kind of class a Render uses.
// +kubebuilder:validation:Enum=DynamicConfigClass;ClusterDynamicConfigClass
type ClassKind string

// The two kinds of class.
const (
	ClassKindNamespaced ClassKind = "DynamicConfigClass"
	ClassKindCluster    ClassKind = "ClusterDynamicConfigClass"
)

// Format is the format a document is read in.
// +kubebuilder:validation:Enum=json;yaml;toml;ini;properties
type Format string

// The formats a document can be read in.
const (
	FormatJSON       Format = "json"
	FormatYAML       Format = "yaml"
	FormatTOML       Format = "toml"
	FormatINI        Format = "ini"
	FormatProperties Format = "properties"
)

// Shape is how a document becomes the data of a target.
// +kubebuilder:validation:Enum=file;envEntries;entries
type Shape string

// The three shapes.
const (
	// ShapeFile writes the whole document as one file, whose extension picks the
	// format.
	ShapeFile Shape = "file"
	// ShapeEnvEntries writes one entry a leaf, named as an environment variable.
	ShapeEnvEntries Shape = "envEntries"
	// ShapeEntries writes one entry a leaf, named by its dotted path.
	ShapeEntries Shape = "entries"
)

// DeletionPolicy is what happens to the target when the Render goes.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// The two deletion policies.
const (
	// DeletionDelete gives the target an ownerReference, so that the API server's
	// garbage collector takes it with the Render.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionRetain leaves the target.
	DeletionRetain DeletionPolicy = "Retain"
)

// RenderTarget is the one object that receives the document.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="exactly one of configMap and secret is needed"
// +kubebuilder:validation:XValidation:rule="(has(self.shape) && self.shape != 'file') || has(self.file)",message="shape file needs file, whose extension is one of json, yaml, yml, toml, ini, properties"
// +kubebuilder:validation:XValidation:rule="!has(self.file) || !has(self.shape) || self.shape == 'file'",message="file belongs to shape file only"
// +kubebuilder:validation:XValidation:rule="!has(self.file) || self.file.matches('^[-._a-zA-Z0-9]*[-_a-zA-Z0-9][.](json|yaml|yml|toml|ini|properties)$')",message="file must be a data key that ends in .json, .yaml, .yml, .toml, .ini or .properties"
// +kubebuilder:validation:XValidation:rule="!has(self.file) || !self.file.startsWith('..')",message="file must not start with two dots"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || has(self.secret)",message="type belongs to a secret only"
type RenderTarget struct {
	// ConfigMap is the name of the ConfigMap to write, in the Render's namespace.
	// A secret document is never written to a ConfigMap.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ConfigMap string `json:"configMap,omitempty"`
	// Secret is the name of the Secret to write, in the Render's namespace. The name
	// of the agent's own identity, dynamic-config-spoke-identity, is refused.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Secret string `json:"secret,omitempty"`
	// File is the data key of shape file; its extension picks the format.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	File string `json:"file,omitempty"`
	// Shape is how the document becomes data: file (the default), envEntries or
	// entries.
	// +optional
	Shape Shape `json:"shape,omitempty"`
	// Type is the type of the Secret; Opaque when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Type string `json:"type,omitempty"`
	// Adopt takes over an existing object that nobody controls. Without it such an
	// object is left alone and the Render is refused with TargetNotOwned.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
	// DeletionPolicy says what becomes of the target when the Render goes, or names
	// another target: Delete (the default) or Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DynamicConfigRenderSpec says which document goes where.
type DynamicConfigRenderSpec struct {
	// Class is the name of the class on the hub that the document is read with.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class"`
	// ClassKind is DynamicConfigClass (the default: a class in the hub's namespace
	// of the same name) or ClusterDynamicConfigClass.
	// +optional
	ClassKind ClassKind `json:"classKind,omitempty"`
	// Key is the document's key in the store, as the store's own command line
	// writes it: any key for consul, ENGINE/PATH for vault; for kubernetes
	// configmaps/NAME or secrets/NAME for an object as a whole, with /DATA-KEY behind
	// it for one of its data keys.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key"`
	// Format is the format of the document where the key's extension does not tell.
	// +optional
	Format Format `json:"format,omitempty"`
	// Section is the dotted path of a table inside the document that is taken as
	// the document.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Section string `json:"section,omitempty"`
	// IntervalSeconds is how often a store that cannot be watched is asked; 15
	// when absent. The class may have a longer shortest interval.
	// +optional
	// +kubebuilder:validation:Minimum=1
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
	// Suspend stops fetching and writing; the target keeps what it has.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Target is the object that receives the document.
	Target RenderTarget `json:"target"`
}

// DynamicConfigRenderStatus is what was seen last.
type DynamicConfigRenderStatus struct {
	// Conditions are Ready, Fetched, Applied, while the hub is lost Stale, and while a
	// person has to change something Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// RenderedAt is when the content of the target last changed.
	// +optional
	RenderedAt *metav1.Time `json:"renderedAt,omitempty"`
	// LastError is the message of the last failure; null when all is well.
	// +optional
	// +nullable
	LastError *string `json:"lastError"`
	// LastHandledSync echoes the annotation dynamic-config.rs/sync-requested-at.
	// +optional
	LastHandledSync string `json:"lastHandledSync,omitempty"`
}

// DynamicConfigRender asks for one document as one ConfigMap or Secret.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dcr,categories=dynamicconfig
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.key`,priority=1
// +kubebuilder:printcolumn:name="ConfigMap",type=string,JSONPath=`.spec.target.configMap`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.spec.target.secret`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Rendered",type=date,JSONPath=`.status.renderedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type DynamicConfigRender struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DynamicConfigRenderSpec `json:"spec"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status DynamicConfigRenderStatus `json:"status,omitempty"`
}

// DynamicConfigRenderList is a list of Renders.
//
// +kubebuilder:object:root=true
type DynamicConfigRenderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamicConfigRender `json:"items"`
}

// EffectiveClassKind is spec.classKind with its default.
func (s *DynamicConfigRenderSpec) EffectiveClassKind() ClassKind {
	if s.ClassKind == "" {
		return ClassKindNamespaced
	}
	return s.ClassKind
}

// EffectiveInterval is spec.intervalSeconds with its default, in seconds.
func (s *DynamicConfigRenderSpec) EffectiveInterval() int32 {
	if s.IntervalSeconds == nil {
		return DefaultIntervalSeconds
	}
	return *s.IntervalSeconds
}

// EffectiveShape is shape with its default.
func (t *RenderTarget) EffectiveShape() Shape {
	if t.Shape == "" {
		return ShapeFile
	}
	return t.Shape
}

// EffectiveDeletionPolicy is deletionPolicy with its default.
func (t *RenderTarget) EffectiveDeletionPolicy() DeletionPolicy {
	if t.DeletionPolicy == "" {
		return DeletionDelete
	}
	return t.DeletionPolicy
}

// IsSecret says whether the target is a Secret.
func (t *RenderTarget) IsSecret() bool { return t.Secret != "" }

// Name is the name of the target object.
func (t *RenderTarget) Name() string {
	if t.IsSecret() {
		return t.Secret
	}
	return t.ConfigMap
}

// Kind is the kind of the target object: Secret or ConfigMap.
func (t *RenderTarget) Kind() string {
	if t.IsSecret() {
		return "Secret"
	}
	return "ConfigMap"
}
