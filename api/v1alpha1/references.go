package v1alpha1

// DefaultTokenKey is the key of a credential Secret that states none.
const DefaultTokenKey = "token"

// DefaultCAKey is the key of a CA Secret that states none.
const DefaultCAKey = "ca.crt"

// SecretReference names one key of a Secret in the hub cluster.
type SecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Key inside the Secret; token for a credential, ca.crt for a CA, when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// LocalSecretReference names one key of a Secret in the class's own namespace.
type LocalSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key inside the Secret; token for a credential, ca.crt for a CA, when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// CertificateReference names a Secret of type kubernetes.io/tls in the hub cluster:
// the certificate, leaf first, under tls.crt and its key under tls.key, both PEM.
type CertificateReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// LocalCertificateReference names a Secret of type kubernetes.io/tls in the class's
// own namespace, with tls.crt and tls.key.
type LocalCertificateReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
