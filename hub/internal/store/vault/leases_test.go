package vault_test

import (
	"net/http"
	"testing"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

// mountLeased mounts an engine at leased/ that makes a lease at every read, with a
// secret at leased/creds/app.
func (s server) mountLeased(t *testing.T) {
	t.Helper()
	s.call(t, http.MethodPost, "sys/mounts/leased", map[string]string{"type": "leased"}, nil)
	s.call(t, http.MethodPost, "leased/creds/app", map[string]string{"password": canary}, nil)
}

// leases counts the leases of leased/creds/app that are not revoked.
func (s server) leases(t *testing.T) int {
	t.Helper()
	var found struct{ Keys []string }
	if s.Call(t.Context(), http.MethodGet, "sys/leases/lookup/leased/creds/app?list=true", nil, &found) != nil {
		return 0 // absent
	}
	return len(found.Keys)
}

func TestLeases_AnAnswerWithALeaseIsNoDocument(t *testing.T) {
	const read = `path "leased/*" { capabilities = ["read"] }
path "kv1/*" { capabilities = ["read"] }
`
	cases := map[string]struct {
		policy string
		left   int // leases
	}{
		"by a token that may revoke a lease": {read + `path "sys/leases/revoke" { capabilities = ["update"] }`, 0},
		"by a token that may only read":      {read, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			server.mountLeased(t)
			server.call(t, http.MethodPost, "kv1/a", map[string]string{"a": "1"}, nil)
			server.call(t, http.MethodPut, "sys/policies/acl/class", map[string]string{"policy": tc.policy}, nil)
			through := before(t, server.Addr)
			client := open(t, vault.Config{
				Endpoint: through.URL, KVVersion: 1, Credential: server.token(t, map[string]any{"policies": []string{"class"}}),
			})
			for range 3 {
				doc, err := client.Fetch(t.Context(), "leased/creds/app")
				if doc != nil {
					t.Error("it became a document")
				}
				wantFailure(t, err, v1alpha1.ReasonKeyInvalid)
			}
			if reads, revocations := through.count("data"), through.count("lease"); reads != 1 || revocations != 1 {
				t.Errorf("%d reads and %d revocations, want one of each", reads, revocations)
			}
			gomega.NewWithT(t).Eventually(func() int { return server.leases(t) }).WithTimeout(storetest.Patience).Should(gomega.Equal(tc.left))
			wantText(t, client, "kv1/a", `{"a":"1"}`)
		})
	}
}

func TestLeases_AnEngineThatVaultIsAskedForIsNotRead(t *testing.T) {
	server := start(t)
	server.mountLeased(t)
	through := before(t, server.Addr)
	client := open(t, vault.Config{Endpoint: through.URL, Credential: server.Token})
	wantReason(t, client, "leased/creds/app", v1alpha1.ReasonKeyInvalid)
	if got := through.count("data"); got != 0 {
		t.Errorf("it was read %d times", got)
	}
}

// What is known of an engine is believed for a while, and it may be replaced meanwhile.
func TestLeases_AnEngineThatTookTheOthersPlaceGivesNoDocument(t *testing.T) {
	server := start(t)
	server.call(t, http.MethodPost, "sys/mounts/leased", map[string]string{"type": "kv"}, nil)
	server.call(t, http.MethodPost, "leased/creds/app", map[string]string{"a": "1"}, nil)
	client := open(t, vault.Config{Endpoint: server.Addr, Credential: server.Token})
	last := wantText(t, client, "leased/creds/app", `{"a":"1"}`)
	server.call(t, http.MethodDelete, "sys/mounts/leased", nil, nil)
	server.mountLeased(t)
	doc, err := client.Poll(t.Context(), "leased/creds/app", last)
	if doc != nil {
		t.Error("it became a document")
	}
	wantFailure(t, err, v1alpha1.ReasonKeyInvalid)
}
