package vault_test

import (
	"strings"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

func TestProbe_SaysWhetherTheStoreAcceptsTheCredential(t *testing.T) {
	server := start(t)
	server.allow(t, "probed", "probed/")
	roleID, secretID := server.appRole(t, "probed", map[string]any{"token_no_default_policy": true})
	revoked := server.token(t, map[string]any{"policies": []string{"probed"}})
	revokedClient := open(t, vault.Config{Endpoint: server.Addr, Credential: revoked})
	server.call(t, "POST", "auth/token/revoke", map[string]string{"token": revoked}, nil)

	for name, tc := range map[string]struct {
		client *vault.Client
		reason string
	}{
		"a token that Vault knows is well":                 {open(t, vault.Config{Endpoint: server.Addr, Credential: server.token(t, nil)}), ""},
		"a token that Vault does not know is rejected":     {open(t, vault.Config{Endpoint: server.Addr, Credential: "hvs.unknown-canary"}), v1alpha1.ReasonCredentialRejected},
		"a token that was revoked is rejected":             {revokedClient, v1alpha1.ReasonCredentialRejected},
		"a login that works is well, whatever it may do":   {open(t, vault.Config{Endpoint: server.Addr, Credential: secretID, Login: &vault.Login{Mount: "approle", RoleID: roleID}}), ""},
		"a login with a wrong secret ID is rejected":       {open(t, vault.Config{Endpoint: server.Addr, Credential: "wrong-canary", Login: &vault.Login{Mount: "approle", RoleID: roleID}}), v1alpha1.ReasonCredentialRejected},
		"an address where nobody listens is not to be had": {open(t, vault.Config{Endpoint: "http://127.0.0.1:1", Credential: "canary"}), v1alpha1.ReasonStoreUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.client.Probe(t.Context())
			if got := store.ReasonOf(err); got != tc.reason || (err == nil) != (tc.reason == "") {
				t.Errorf("%v, want reason %q", err, tc.reason)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the credential: %v", err)
			}
		})
	}
	if err := server.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed := open(t, vault.Config{Endpoint: server.Addr, Credential: "any"})
	if err := sealed.Probe(t.Context()); store.ReasonOf(err) != v1alpha1.ReasonStoreSealed {
		t.Errorf("sealed: %v", err)
	}
}
