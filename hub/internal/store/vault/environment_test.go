package vault_test

import (
	"net/http"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

// TestClient_NoVariableChangesARequest has a login, a probe and a read made under each
// variable. None takes the place of what the class says, also where it says nothing.
func TestClient_NoVariableChangesARequest(t *testing.T) {
	bodies := map[string]string{"lookup-self": lookedUp, "login": grantedBody, "revoke-self": lookedUp, "mounts/secret/a": mountBody, "data/a": dataBody}
	handler := func(w http.ResponseWriter, r *http.Request) {
		for end, body := range bodies {
			if strings.HasSuffix(r.URL.Path, end) {
				answer(w, 200, body)
				return
			}
		}
		answer(w, 404, `{"errors":[]}`)
	}
	for name, login := range map[string]*vault.Login{
		"a token": nil, "a role ID": {Mount: "approle", RoleID: "r"}, "a ServiceAccount's token": {Mount: "kubernetes", Role: "r"},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Environment(t, handler, func(t *testing.T, endpoint string, s link.TLS) error {
				t.Helper()
				client, err := vault.New(vault.Config{Endpoint: endpoint, Credential: "own", Login: login, TLS: s})
				if err != nil {
					return err
				}
				_, err = client.Fetch(t.Context(), "secret/a")
				_ = client.Close() // an error is that it could not revoke the token that it does not have
				return err
			}, func(f storetest.Files) map[string]map[string]string {
				return map[string]map[string]string{
					"another address":      {"VAULT_ADDR": "http://127.0.0.1:1"},
					"a socket":             {"VAULT_ADDR": "unix://" + f.Dir + "/vault.sock"},
					"an agent's address":   {"VAULT_AGENT_ADDR": "http://127.0.0.1:1"},
					"a token":              {"VAULT_TOKEN": "ambient"},
					"a token's file":       {"HOME": f.Dir, "VAULT_TOKEN_FILE": f.Token, "VAULT_CONFIG_PATH": f.Token},
					"a namespace":          {"VAULT_NAMESPACE": "ambient"},
					"headers":              {"VAULT_HEADERS": `{"X-Ambient":"ambient"}`},
					"a wrapping":           {"VAULT_WRAP_TTL": "60s"},
					"a second factor":      {"VAULT_MFA": "ambient"},
					"no verification":      {"VAULT_SKIP_VERIFY": "true"},
					"the right CA":         {"VAULT_CACERT": f.CA},
					"a folder of CAs":      {"VAULT_CAPATH": f.Dir},
					"a client certificate": {"VAULT_CLIENT_CERT": f.Cert, "VAULT_CLIENT_KEY": f.Key},
					"a server's name":      {"VAULT_TLS_SERVER_NAME": "ambient"},
					"a proxy for Vault":    {"VAULT_PROXY_ADDR": "http://127.0.0.1:1", "VAULT_HTTP_PROXY": "http://127.0.0.1:1"},
					"a proxy":              {"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"},
					"limits":               {"VAULT_RATE_LIMIT": "0.001:1", "VAULT_MAX_RETRIES": "9", "VAULT_CLIENT_TIMEOUT": "1ns"},
					"a look-up of SRV":     {"VAULT_SRV_LOOKUP": "true"},
					"redirects":            {"VAULT_DISABLE_REDIRECTS": "false"},
					"another identity":     {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "AWS_ACCESS_KEY_ID": "ambient", "GOOGLE_APPLICATION_CREDENTIALS": f.Token},
				}
			})
		})
	}
}
