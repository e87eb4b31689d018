package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JoinToken is the hash of a token that enrols the cluster once.
type JoinToken struct {
	// SHA256 of the token, in lower-case hexadecimal. The token itself is 256
	// random bits and is stored nowhere.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256"`
	// ExpiresAt is when the token stops being accepted, used or not.
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// ClusterKeys are what the tokens of a workload cluster's ServiceAccounts are
// verified against.
type ClusterKeys struct {
	// Issuer that the tokens must name, as the API server's --service-account-issuer
	// says.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Issuer string `json:"issuer"`
	// JWKS is the JSON Web Key Set that the API server publishes at /openid/v1/jwks.
	// It holds public keys only.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=65536
	JWKS string `json:"jwks"`
}

// ServiceAccountReference names a ServiceAccount of a workload cluster.
type ServiceAccountReference struct {
	// Namespace of the ServiceAccount.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the ServiceAccount.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// KeyUpdates says what becomes of keys that a cluster adds to those it signs its
// ServiceAccounts' tokens with.
// +kubebuilder:validation:Enum=Accept;Flag
type KeyUpdates string

const (
	// KeyUpdatesAccept pins keys that an agent reports in a session it has proven
	// itself in.
	KeyUpdatesAccept KeyUpdates = "Accept"
	// KeyUpdatesFlag raises the condition KeysPinned (False) and pins nothing.
	KeyUpdatesFlag KeyUpdates = "Flag"
)

// DefaultSpokeNamespace and DefaultSpokeServiceAccount name the agent's
// ServiceAccount where a SpokeCluster states none.
const (
	DefaultSpokeNamespace      = "dynamic-config-system"
	DefaultSpokeServiceAccount = "dynamic-config-spoke"
)

// SpokeClusterSpec is what the platform team says of a workload cluster.
type SpokeClusterSpec struct {
	// Accepted lets the cluster enrol and hold sessions. Until it is true the cluster
	// gets nothing.
	// +optional
	Accepted bool `json:"accepted,omitempty"`
	// Suspend closes the cluster's session and refuses new ones; targets there
	// keep what they have.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Keys of the cluster, as its administrator read them. When absent, those in
	// status count, pinned at the first contact with a join token.
	// +optional
	Keys *ClusterKeys `json:"keys,omitempty"`
	// ServiceAccount of the agent; dynamic-config-spoke in namespace
	// dynamic-config-system when absent.
	// +optional
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`
	// KeyUpdates says whether keys that the cluster adds are pinned (Accept) or only
	// reported (Flag); Flag when absent.
	// +optional
	KeyUpdates KeyUpdates `json:"keyUpdates,omitempty"`
	// JoinToken lets a cluster enrol once with keys that are not pinned, and pins
	// them; a new one replaces keys pinned before where spec.keys is absent.
	// +optional
	JoinToken *JoinToken `json:"joinToken,omitempty"`
}

// SpokeSession is the session an agent of the cluster holds or held last.
type SpokeSession struct {
	// Epoch grows by one with every accepted session of this cluster.
	Epoch int64 `json:"epoch"`
	// Hub is the hub replica that accepted it.
	// +optional
	Hub string `json:"hub,omitempty"`
	// ConnectedAt is when it was accepted.
	// +optional
	ConnectedAt *metav1.Time `json:"connectedAt,omitempty"`
	// AgentVersion is what the agent says its version is.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// Instance tells agents of the cluster apart: the UID of the agent's pod.
	// +optional
	Instance string `json:"instance,omitempty"`
}

// MaxTakeovers is how many takeovers a SpokeCluster remembers: as many as make it
// contested when they are recent.
const MaxTakeovers = 3

// RenderCounts count the Renders of a cluster by state.
type RenderCounts struct {
	// Total number of Renders.
	Total int32 `json:"total"`
	// Ready is how many are applied.
	Ready int32 `json:"ready"`
	// Failed is how many were refused or failed.
	Failed int32 `json:"failed"`
}

// ClassRenderCounts count the Renders of a cluster that use one class.
type ClassRenderCounts struct {
	// Class reads Kind/name or Kind/namespace/name.
	Class string `json:"class"`

	RenderCounts `json:",inline"`
}

// MaxCountedClasses is how many classes a SpokeCluster counts apart: those with the
// most Renders.
const MaxCountedClasses = 256

// SpokeClusterStatus is what the hub saw of a cluster last.
type SpokeClusterStatus struct {
	// Conditions are Ready and Connected; KeysPinned once the agent has reported the
	// cluster's keys; and Contested while two agents take each other's session away.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Session is the current or last session.
	// +optional
	Session *SpokeSession `json:"session,omitempty"`
	// Takeovers are the last times at which an agent took the session of another
	// one that still held it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Takeovers []metav1.Time `json:"takeovers,omitempty"`
	// Keys are those that were pinned at the first contact, and those that the
	// cluster added since where spec.keyUpdates is Accept. They count in addition to
	// spec.keys of the same issuer, and alone where spec.keys is absent.
	// +optional
	Keys *ClusterKeys `json:"keys,omitempty"`
	// RedeemedJoinToken is the hash of the join token that was used; it is not
	// accepted again.
	// +optional
	RedeemedJoinToken string `json:"redeemedJoinToken,omitempty"`
	// Renders count the cluster's Renders by state.
	// +optional
	Renders *RenderCounts `json:"renders,omitempty"`
	// Classes count them by class too.
	// +optional
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MaxItems=256
	Classes []ClassRenderCounts `json:"classes,omitempty"`
}

// SpokeCluster is a workload cluster; its name is the cluster's identity.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=spc,categories=dynamicconfig
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name must be a DNS label of at most 63 characters: it becomes part of the cluster's certificate"
// +kubebuilder:printcolumn:name="Accepted",type=boolean,JSONPath=`.spec.accepted`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Renders",type=integer,JSONPath=`.status.renders.total`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.renders.ready`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.renders.failed`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.session.agentVersion`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SpokeCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SpokeClusterSpec `json:"spec,omitempty"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status SpokeClusterStatus `json:"status,omitempty"`
}

// SpokeClusterList is a list of SpokeClusters.
//
// +kubebuilder:object:root=true
type SpokeClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SpokeCluster `json:"items"`
}
