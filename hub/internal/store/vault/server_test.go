package vault_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	"go.uber.org/goleak"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// server is a real Vault and what tests do to it.
type server struct {
	*testenv.VaultServer
}

func start(t *testing.T) server {
	t.Helper()
	// Its own requests go through the default transport.
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server{testenv.Vault(t)}
}

// call makes a request with the root token.
func (s server) call(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	if err := s.Call(t.Context(), method, path, body, answer); err != nil {
		t.Fatal(err)
	}
}

// mount makes an engine of KV 2, which is not to be used for a moment at first.
func (s server) mount(t *testing.T, path string) {
	t.Helper()
	s.call(t, http.MethodPost, "sys/mounts/"+path, map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}, nil)
	gomega.NewWithT(t).Eventually(func() error {
		return s.Call(t.Context(), http.MethodGet, path+"/config", nil, nil)
	}).WithTimeout(storetest.Patience).Should(gomega.Succeed())
}

// put writes a document to KV 2 at secret/.
func (s server) put(t *testing.T, path string, document any) {
	t.Helper()
	s.call(t, http.MethodPost, "secret/data/"+path, map[string]any{"data": document}, nil)
}

// allow makes a policy that reads documents below a path of secret/.
func (s server) allow(t *testing.T, name, below string) {
	t.Helper()
	rules := fmt.Sprintf("path \"secret/data/%[1]s*\" { capabilities = [\"read\"] }\npath \"secret/metadata/%[1]s*\" { capabilities = [\"read\"] }", below)
	s.call(t, http.MethodPut, "sys/policies/acl/"+name, map[string]string{"policy": rules}, nil)
}

// appRole makes an AppRole with a policy of its name, and answers its ID and a
// secret ID.
func (s server) appRole(t *testing.T, name string, settings map[string]any) (roleID, secretID string) {
	t.Helper()
	role := map[string]any{"token_policies": name, "token_ttl": "1h"}
	maps.Copy(role, settings)
	s.call(t, http.MethodPost, "auth/approle/role/"+name, role, nil)
	var id struct {
		RoleID string `json:"role_id"`
	}
	s.call(t, http.MethodGet, "auth/approle/role/"+name+"/role-id", nil, &id)
	return id.RoleID, s.secretID(t, name)
}

func (s server) secretID(t *testing.T, role string) string {
	t.Helper()
	var secret struct {
		SecretID string `json:"secret_id"`
	}
	s.call(t, http.MethodPost, "auth/approle/role/"+role+"/secret-id", map[string]any{}, &secret)
	return secret.SecretID
}

// token makes a token with policies.
func (s server) token(t *testing.T, settings map[string]any) string {
	t.Helper()
	var auth struct {
		ClientToken string `json:"client_token"`
	}
	s.call(t, http.MethodPost, "auth/token/create", settings, &auth)
	return auth.ClientToken
}

// isValid says whether Vault knows a token.
func (s server) isValid(t *testing.T, token string) bool {
	t.Helper()
	return s.Call(t.Context(), http.MethodPost, "auth/token/lookup", map[string]string{"token": token}, nil) == nil
}

// front stands before a Vault and counts the requests of each kind.
type front struct {
	*httptest.Server
	mu     sync.Mutex
	counts map[string]int
	tokens []string // that documents were read with, in order, without repeats
}

// before makes a front of a Vault.
func before(t *testing.T, addr string) *front {
	t.Helper()
	f := &front{counts: map[string]int{}}
	f.Server = httptest.NewServer(f.handler(t, addr))
	t.Cleanup(f.Close)
	return f
}

func (f *front) handler(t *testing.T, addr string) http.Handler {
	t.Helper()
	upstream, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.Transport = transport
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		proxy.ServeHTTP(w, r)
	})
}

func (f *front) note(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := "data"
	for part, name := range map[string]string{
		"/login": "login", "/sys/internal/ui/mounts/": "probe", "/metadata/": "metadata",
		"/lookup-self": "lookup", "/renew-self": "renew", "/revoke-self": "revoke",
		"/sys/leases/": "lease",
	} {
		if strings.Contains(r.URL.Path, part) {
			kind = name
		}
	}
	f.counts[kind]++
	token := r.Header.Get("X-Vault-Token")
	if kind == "data" && (len(f.tokens) == 0 || f.tokens[len(f.tokens)-1] != token) {
		f.tokens = append(f.tokens, token)
	}
}

func (f *front) count(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[kind]
}

// used are the tokens that documents were read with.
func (f *front) used() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.tokens...)
}

// open answers a client that closes with the test.
func open(t *testing.T, cfg vault.Config) *vault.Client {
	t.Helper()
	client, err := vault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// wantText fetches and wants the document.
func wantText(t *testing.T, r store.Reader, key policy.Key, text string) *store.Document {
	t.Helper()
	doc, err := r.Fetch(t.Context(), key)
	if err != nil || string(doc.Text) != text {
		t.Fatalf("fetch %s: got %v, %v", key, doc, err)
	}
	return doc
}

// wantReason fetches and wants that failure.
func wantReason(t *testing.T, r store.Reader, key policy.Key, reason string) {
	t.Helper()
	doc, err := r.Fetch(t.Context(), key)
	if doc != nil || store.ReasonOf(err) != reason {
		t.Errorf("fetch %s: document %t, error %v with reason %q; want %s", key, doc != nil, err, store.ReasonOf(err), reason)
	}
}
