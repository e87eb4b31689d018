package consul_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestProbe_SaysWhetherTheStoreAcceptsTheToken(t *testing.T) {
	guarded, plain := testenv.Consul(t, testenv.WithACL), testenv.Consul(t)
	token, err := guarded.ReadToken(t.Context(), "probed/")
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>all is well</html>"))
	}))
	t.Cleanup(page.Close)
	for name, tc := range map[string]struct {
		cfg    consul.Config
		reason string
	}{
		"a token that Consul knows is well":             {consul.Config{Endpoint: guarded.Addr, Token: token}, ""},
		"a token that Consul does not know is rejected": {consul.Config{Endpoint: guarded.Addr, Token: "11111111-2222-3333-4444-000000000000"}, v1alpha1.ReasonCredentialRejected},
		"no token is well where a leader answers":       {consul.Config{Endpoint: guarded.Addr}, ""},
		"without ACLs any token is well":                {consul.Config{Endpoint: plain.Addr, Token: "any"}, ""},
		"an address where nobody listens is not well":   {consul.Config{Endpoint: "http://127.0.0.1:1", Token: token}, v1alpha1.ReasonStoreUnreachable},
		"a page of somebody else's is not Consul":       {consul.Config{Endpoint: page.URL}, v1alpha1.ReasonStoreUnreachable},
		"nor is it with a token":                        {consul.Config{Endpoint: page.URL, Token: token}, v1alpha1.ReasonStoreUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			client := open(t, tc.cfg)
			if err := client.Probe(t.Context()); store.ReasonOf(err) != tc.reason || (err == nil) != (tc.reason == "") {
				t.Errorf("%v, want reason %q", err, tc.reason)
			}
		})
	}
}
