package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

func TestVaultConfig(t *testing.T) {
	t.Parallel()
	auth := func(a v1alpha1.VaultAuth) *v1alpha1.VaultOptions { return &v1alpha1.VaultOptions{Auth: &a} }
	cases := map[string]struct {
		options *v1alpha1.VaultOptions
		want    vault.Config
	}{
		"no options are a token":    {nil, vault.Config{}},
		"no login is a token":       {&v1alpha1.VaultOptions{Namespace: "team"}, vault.Config{Namespace: "team"}},
		"a token":                   {auth(v1alpha1.VaultAuth{Token: &v1alpha1.VaultTokenAuth{}}), vault.Config{}},
		"a KV version is handed on": {&v1alpha1.VaultOptions{KVVersion: ptr.To[int32](2)}, vault.Config{KVVersion: 2}},
		"an AppRole": {
			auth(v1alpha1.VaultAuth{AppRole: &v1alpha1.VaultAppRoleAuth{RoleID: "r"}}),
			vault.Config{Login: &vault.Login{Mount: "approle", RoleID: "r"}},
		},
		"an AppRole elsewhere": {
			auth(v1alpha1.VaultAuth{AppRole: &v1alpha1.VaultAppRoleAuth{RoleID: "r", Mount: "a/b"}}),
			vault.Config{Login: &vault.Login{Mount: "a/b", RoleID: "r"}},
		},
		"a ServiceAccount's token": {
			auth(v1alpha1.VaultAuth{Kubernetes: &v1alpha1.VaultRoleAuth{Role: "r"}}),
			vault.Config{Login: &vault.Login{Mount: "kubernetes", Role: "r"}},
		},
		"a JSON Web Token": {
			auth(v1alpha1.VaultAuth{JWT: &v1alpha1.VaultRoleAuth{Role: "r"}}),
			vault.Config{Login: &vault.Login{Mount: "jwt", Role: "r"}},
		},
		"a JSON Web Token elsewhere": {
			auth(v1alpha1.VaultAuth{JWT: &v1alpha1.VaultRoleAuth{Role: "r", Mount: "oidc"}}),
			vault.Config{Login: &vault.Login{Mount: "oidc", Role: "r"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := &classes.Class{
				Spec:       v1alpha1.ClassCommon{Source: v1alpha1.SourceVault, Endpoint: "https://vault", Vault: tc.options},
				ServerName: "name",
			}
			tc.want.Endpoint, tc.want.Credential = "https://vault", "secret"
			tc.want.TLS = link.TLS{CAPEM: []byte("ca"), CertPEM: []byte("cert"), KeyPEM: []byte("key"), ServerName: "name"}
			got := vaultConfig(class, classes.Credential{Token: "secret", CAPEM: []byte("ca"), CertPEM: []byte("cert"), KeyPEM: []byte("key")})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
