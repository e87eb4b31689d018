package v1alpha1

// ConsulOptions are passed to Consul with every request.
type ConsulOptions struct {
	// Datacenter to read from; the agent's own when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Datacenter string `json:"datacenter,omitempty"`
	// Namespace (Consul Enterprise).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Partition (Consul Enterprise).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Partition string `json:"partition,omitempty"`
}

// VaultOptions say how documents are read from Vault or OpenBao.
type VaultOptions struct {
	// Namespace (Vault Enterprise, OpenBao), of the documents and of the login.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// KVVersion is the version of the KV secrets engines that the class reads. When
	// absent, Vault is asked for each engine. When stated, Vault is not asked, and
	// the first segment of a key is the engine's path.
	// +optional
	// +kubebuilder:validation:Enum=1;2
	KVVersion *int32 `json:"kvVersion,omitempty"`
	// Auth is how the hub logs in; with a token when absent. The secret half of
	// every method is what spec.tokenSecret names.
	// +optional
	Auth *VaultAuth `json:"auth,omitempty"`
}

// VaultAuth is one of Vault's ways to log in.
//
// +kubebuilder:validation:XValidation:rule="[has(self.token), has(self.appRole), has(self.kubernetes), has(self.jwt)].filter(x, x).size() == 1",message="exactly one of token, appRole, kubernetes and jwt is needed"
type VaultAuth struct {
	// Token: spec.tokenSecret holds a token. It is renewed while it is in use and
	// never revoked.
	// +optional
	Token *VaultTokenAuth `json:"token,omitempty"`
	// AppRole: spec.tokenSecret holds the secret ID.
	// +optional
	AppRole *VaultAppRoleAuth `json:"appRole,omitempty"`
	// Kubernetes: spec.tokenSecret holds a ServiceAccount's token.
	// +optional
	Kubernetes *VaultRoleAuth `json:"kubernetes,omitempty"`
	// JWT: spec.tokenSecret holds a JSON Web Token.
	// +optional
	JWT *VaultRoleAuth `json:"jwt,omitempty"`
}

// VaultTokenAuth needs nothing beside the token.
type VaultTokenAuth struct{}

// VaultAppRoleAuth is a login with an AppRole.
type VaultAppRoleAuth struct {
	// RoleID of the AppRole.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RoleID string `json:"roleID"`
	// Mount is the path of the auth method; approle when absent.
	// +optional
	Mount VaultMount `json:"mount,omitempty"`
}

// VaultRoleAuth is a login with a signed token and the name of a role.
type VaultRoleAuth struct {
	// Role to log in as.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Role string `json:"role"`
	// Mount is the path of the auth method; kubernetes or jwt, as the method is
	// called, when absent.
	// +optional
	Mount VaultMount `json:"mount,omitempty"`
}

// VaultMount is the path of an auth method, without auth/ before and / after it.
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$`
type VaultMount string
