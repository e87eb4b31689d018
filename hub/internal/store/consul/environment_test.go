package consul_test

import (
	"net/http"
	"testing"

	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
)

func TestClient_TakesNothingFromTheEnvironment(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, pair("app/db", []byte("text"))) }
	for name, token := range map[string]string{"with a token": "own", "without a token": ""} {
		t.Run(name, func(t *testing.T) {
			storetest.Environment(t, handler, func(t *testing.T, endpoint string, s link.TLS) error {
				t.Helper()
				client := open(t, consul.Config{Endpoint: endpoint, Token: token, TLS: s})
				defer client.Close()
				_, err := client.Fetch(t.Context(), "app/db")
				return err
			}, func(f storetest.Files) map[string]map[string]string {
				return map[string]map[string]string{
					"another address":              {"CONSUL_HTTP_ADDR": "127.0.0.1:1"},
					"a socket":                     {"CONSUL_HTTP_ADDR": "unix://" + f.Dir + "/consul.sock"},
					"a token":                      {"CONSUL_HTTP_TOKEN": "ambient"},
					"a token's file":               {"CONSUL_HTTP_TOKEN_FILE": f.Token},
					"a token's file that is none":  {"CONSUL_HTTP_TOKEN_FILE": f.Dir + "/none"},
					"basic authentication":         {"CONSUL_HTTP_AUTH": "ambient:ambient"},
					"TLS":                          {"CONSUL_HTTP_SSL": "true"},
					"no TLS":                       {"CONSUL_HTTP_SSL": "false"},
					"a malformed switch":           {"CONSUL_HTTP_SSL": "ambient", "CONSUL_HTTP_SSL_VERIFY": "ambient"},
					"no verification":              {"CONSUL_HTTP_SSL_VERIFY": "false"},
					"the right CA":                 {"CONSUL_CACERT": f.CA},
					"a CA that is none":            {"CONSUL_CACERT": f.Dir + "/none"},
					"a folder of CAs":              {"CONSUL_CAPATH": f.Dir},
					"a client certificate":         {"CONSUL_CLIENT_CERT": f.Cert, "CONSUL_CLIENT_KEY": f.Key},
					"a client certificate no more": {"CONSUL_CLIENT_CERT": f.Dir + "/none", "CONSUL_CLIENT_KEY": f.Dir + "/none"},
					"a server's name":              {"CONSUL_TLS_SERVER_NAME": "ambient"},
					"a namespace":                  {"CONSUL_NAMESPACE": "ambient"},
					"a partition":                  {"CONSUL_PARTITION": "ambient"},
					"a proxy":                      {"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"},
				}
			})
		})
	}
}
