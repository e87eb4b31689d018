package vault_test

import (
	"net/http"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

func TestMounts_OnVault(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	token := server.token(t, map[string]any{"policies": []string{"app"}})

	t.Run("an engine is asked for once", func(t *testing.T) {
		through := before(t, server.Addr)
		client := open(t, vault.Config{Endpoint: through.URL, Credential: token})
		for range 3 {
			wantText(t, client, "secret/app/db", `{"a":"1"}`)
			wantReason(t, client, "secret/app/none", v1alpha1.ReasonDocumentNotFound)
		}
		if got := through.count("probe"); got != 1 {
			t.Errorf("%d probes, want 1", got)
		}
	})
	t.Run("a hidden engine is an error that says what to do, and no guess", func(t *testing.T) {
		client := open(t, vault.Config{Endpoint: server.Addr, Credential: token})
		for _, key := range []policy.Key{"kv1/a", "none/a"} {
			_, err := client.Fetch(t.Context(), key)
			wantFailure(t, err, v1alpha1.ReasonKeyForbidden, token)
			if !strings.Contains(err.Error(), "spec.vault.kvVersion") {
				t.Errorf("got %q", err)
			}
		}
	})
	t.Run("a stated version is not asked for", func(t *testing.T) {
		through := before(t, server.Addr)
		client := open(t, vault.Config{Endpoint: through.URL, Credential: token, KVVersion: 2})
		wantText(t, client, "secret/app/db", `{"a":"1"}`)
		if got := through.count("probe"); got != 0 {
			t.Errorf("%d probes, want none", got)
		}
	})
	t.Run("a stated version that is wrong gives no document", func(t *testing.T) {
		client := open(t, vault.Config{Endpoint: server.Addr, Credential: server.Token, KVVersion: 1})
		_, err := client.Fetch(t.Context(), "secret/app/db")
		wantFailure(t, err, v1alpha1.ReasonClassInvalid, "")
	})
	t.Run("an engine that gets versions is found again", func(t *testing.T) {
		server.call(t, http.MethodPost, "sys/mounts/grows", map[string]any{"type": "kv", "options": map[string]string{"version": "1"}}, nil)
		server.call(t, http.MethodPost, "grows/a", map[string]string{"a": "1"}, nil)
		client := open(t, vault.Config{Endpoint: server.Addr, Credential: server.Token})
		wantText(t, client, "grows/a", `{"a":"1"}`)
		server.call(t, http.MethodDelete, "sys/mounts/grows", nil, nil)
		wantReason(t, client, "grows/a", v1alpha1.ReasonDocumentNotFound)
		server.mount(t, "grows")
		server.call(t, http.MethodPost, "grows/data/a", map[string]any{"data": map[string]string{"a": "2"}}, nil)
		wantText(t, client, "grows/a", `{"a":"2"}`)
	})
	for name, key := range map[string]policy.Key{
		"the token's own entry":             "auth/token/lookup-self",
		"the same in a namespace":           "team/auth/token/lookup-self",
		"the system's paths":                "sys/mounts",
		"identities":                        "identity/entity",
		"the token's cubbyhole":             "cubbyhole/a",
		"an engine alone, without a secret": "secret",
	} {
		t.Run(name+" is no document, whatever version is stated", func(t *testing.T) {
			for stated := range 3 {
				through := before(t, server.Addr)
				client := open(t, vault.Config{Endpoint: through.URL, Credential: server.Token, KVVersion: stated})
				wantReason(t, client, key, v1alpha1.ReasonKeyInvalid)
				if got := through.count("data"); got != 0 {
					t.Errorf("Vault was asked %d times", got)
				}
			}
		})
	}
}

func TestMounts_WithoutMetadataTheDocumentIsRead(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.call(t, http.MethodPut, "sys/policies/acl/data-only", map[string]string{
		"policy": `path "secret/data/*" { capabilities = ["read"] }`,
	}, nil)
	through := before(t, server.Addr)
	client := open(t, vault.Config{Endpoint: through.URL, Credential: server.token(t, map[string]any{"policies": []string{"data-only"}})})
	doc := wantText(t, client, "secret/app/db", `{"a":"1"}`)
	for range 5 {
		if same, err := client.Poll(t.Context(), "secret/app/db", doc); err != nil || same != doc {
			t.Fatalf("got another document or %v", err)
		}
	}
	if data, metadata := through.count("data"), through.count("metadata"); data != 6 || metadata != 1 {
		t.Errorf("%d reads of data and %d of metadata, want 6 and 1", data, metadata)
	}
	if got := through.count("login") + through.count("renew"); got != 0 {
		t.Errorf("%d logins", got)
	}
	server.put(t, "app/db", map[string]string{"a": "2"})
	if moved, err := client.Poll(t.Context(), "secret/app/db", doc); err != nil || string(moved.Text) != `{"a":"2"}` {
		t.Errorf("got %v, %v", moved, err)
	}
}
