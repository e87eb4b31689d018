package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source is the kind of store a class reads.
// +kubebuilder:validation:Enum=consul;vault;kubernetes
type Source string

// The kinds of store.
const (
	SourceConsul     Source = "consul"
	SourceVault      Source = "vault"
	SourceKubernetes Source = "kubernetes"
)

// ClassTLS is how a cluster class checks its store's certificate.
type ClassTLS struct {
	// CASecret holds the CA in PEM; the system's roots when absent.
	// +optional
	CASecret *SecretReference `json:"caSecret,omitempty"`
	// ClientCertSecret holds the certificate that the hub shows the store; none when
	// absent.
	// +optional
	ClientCertSecret *CertificateReference `json:"clientCertSecret,omitempty"`
	// ServerName is the name in the store's certificate where it differs from the
	// endpoint's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// LocalClassTLS is how a namespaced class checks its store's certificate.
type LocalClassTLS struct {
	// CASecret holds the CA in PEM; the system's roots when absent.
	// +optional
	CASecret *LocalSecretReference `json:"caSecret,omitempty"`
	// ClientCertSecret holds the certificate that the hub shows the store; none when
	// absent.
	// +optional
	ClientCertSecret *LocalCertificateReference `json:"clientCertSecret,omitempty"`
	// ServerName is the name in the store's certificate where it differs from the
	// endpoint's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// KubernetesOptions say where a cluster class reads in the hub cluster.
type KubernetesOptions struct {
	// Namespace whose ConfigMaps and Secrets are the documents.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// ClassLimits bound what the hub asks of a store on behalf of one class.
type ClassLimits struct {
	// RequestsPerSecond that the hub sends at most; 20 when absent, 1000 for source
	// kubernetes, which is read from the hub's own cache.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RequestsPerSecond *int32 `json:"requestsPerSecond,omitempty"`
	// Burst above that rate; 40 when absent, 1000 for source kubernetes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Burst *int32 `json:"burst,omitempty"`
	// Concurrency is how many requests are under way at most, watches aside; 8
	// when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Concurrency *int32 `json:"concurrency,omitempty"`
	// MinIntervalSeconds is the shortest interval a Render gets, whatever it asks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinIntervalSeconds *int32 `json:"minIntervalSeconds,omitempty"`
}

// ClassCommon is what both kinds of class hold.
type ClassCommon struct {
	// Source is the kind of store. With kubernetes the documents are ConfigMaps and
	// Secrets of the hub cluster: of the class's own namespace, or of the one that
	// spec.kubernetes of a cluster class names.
	Source Source `json:"source"`
	// Endpoint is the store's address, an http or https URL without user info.
	// Needed except for source kubernetes.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint,omitempty"`
	// Clusters selects the SpokeClusters the class serves, by the labels on the
	// hub's objects; every accepted one when absent.
	// +optional
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// Keys are patterns of the keys the class serves: * stands for one segment, **
	// at the end for the rest; {cluster} and {namespace} are the requester's, and not
	// both in one segment. Any key when absent.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	Keys []string `json:"keys,omitempty"`
	// Consul holds options of source consul.
	// +optional
	Consul *ConsulOptions `json:"consul,omitempty"`
	// Vault holds options of source vault.
	// +optional
	Vault *VaultOptions `json:"vault,omitempty"`
	// Limits bound what is asked of the store.
	// +optional
	Limits *ClassLimits `json:"limits,omitempty"`
}

// ClusterDynamicConfigClassSpec says which documents the class serves to whom.
//
// +kubebuilder:validation:XValidation:rule="self.source == 'kubernetes' || has(self.endpoint)",message="endpoint is needed except for source kubernetes"
// +kubebuilder:validation:XValidation:rule="self.source != 'kubernetes' || has(self.kubernetes)",message="source kubernetes needs kubernetes.namespace"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoint) || self.endpoint.matches('^https?://[^/?#@[:space:]]+(/[^?#@[:space:]]*)?$')",message="endpoint must be an http or https URL without user info, query or fragment"
type ClusterDynamicConfigClassSpec struct {
	ClassCommon `json:",inline"`

	// TokenSecret holds the store's credential; none when absent.
	// +optional
	TokenSecret *SecretReference `json:"tokenSecret,omitempty"`
	// TLS says how the store's certificate is checked.
	// +optional
	TLS *ClassTLS `json:"tls,omitempty"`
	// Kubernetes holds options of source kubernetes.
	// +optional
	Kubernetes *KubernetesOptions `json:"kubernetes,omitempty"`
	// Namespaces the class serves, in every cluster it serves; every namespace
	// when absent. An empty list is invalid.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}

// DynamicConfigClassSpec says which documents the class serves to the namespace
// of the same name in the clusters admitted to it.
//
// +kubebuilder:validation:XValidation:rule="self.source == 'kubernetes' || has(self.endpoint)",message="endpoint is needed except for source kubernetes"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoint) || self.endpoint.matches('^https?://[^/?#@[:space:]]+(/[^?#@[:space:]]*)?$')",message="endpoint must be an http or https URL without user info, query or fragment"
type DynamicConfigClassSpec struct {
	ClassCommon `json:",inline"`

	// TokenSecret holds the store's credential, in the class's namespace; none
	// when absent.
	// +optional
	TokenSecret *LocalSecretReference `json:"tokenSecret,omitempty"`
	// TLS says how the store's certificate is checked.
	// +optional
	TLS *LocalClassTLS `json:"tls,omitempty"`
}

// ClassStatus is what the hub saw of a class last.
type ClassStatus struct {
	// Conditions hold Ready, which says whether the credential is there and the store
	// answers.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Renders count the Renders of all clusters that use the class, by state.
	// +optional
	Renders *RenderCounts `json:"renders,omitempty"`
}

// ClassID names a class in one line: Kind/name, or Kind/namespace/name.
func ClassID(kind ClassKind, namespace, name string) string {
	if namespace == "" {
		return string(kind) + "/" + name
	}
	return string(kind) + "/" + namespace + "/" + name
}

// ClusterDynamicConfigClass is a platform team's offer of documents to many
// clusters and namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cdcc,categories=dynamicconfig
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Renders",type=integer,JSONPath=`.status.renders.total`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.renders.failed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type ClusterDynamicConfigClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterDynamicConfigClassSpec `json:"spec"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ClassStatus `json:"status,omitempty"`
}

// ClusterDynamicConfigClassList is a list of cluster classes.
//
// +kubebuilder:object:root=true
type ClusterDynamicConfigClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterDynamicConfigClass `json:"items"`
}

// DynamicConfigClass is a team's offer of documents to its own namespace in
// every cluster admitted to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dcc,categories=dynamicconfig
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Renders",type=integer,JSONPath=`.status.renders.total`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.renders.failed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type DynamicConfigClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DynamicConfigClassSpec `json:"spec"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ClassStatus `json:"status,omitempty"`
}

// DynamicConfigClassList is a list of namespaced classes.
//
// +kubebuilder:object:root=true
type DynamicConfigClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamicConfigClass `json:"items"`
}
