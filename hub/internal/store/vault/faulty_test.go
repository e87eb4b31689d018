package vault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

// canary stands for everything a server's answer may hold.
const canary = "canary-7c2e"

func jsonNumber(text string) json.Number { return json.Number(text) }

// wantFailure checks reason and, unless empty, text, and that no cause holds a
// canary.
func wantFailure(t *testing.T, err error, reason string, secrets ...string) {
	t.Helper()
	if store.ReasonOf(err) != reason {
		t.Errorf("error %v with reason %q; want %s", err, store.ReasonOf(err), reason)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		for _, secret := range append(secrets, canary) {
			if secret != "" && strings.Contains(fmt.Sprintf("%v %+v %#v", cause, cause, cause), secret) {
				t.Errorf("cause %T holds a secret", cause)
			}
		}
	}
}

// answer writes what Vault would write.
func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

const (
	grantedBody = `{"request_id":"1","data":null,"auth":{"client_token":"` + canary + `","lease_duration":3600,"renewable":true}}`
	lookedUp    = `{"request_id":"1","data":{"ttl":0,"expire_time":null,"renewable":false}}`
	mountBody   = `{"request_id":"1","data":{"path":"secret/","type":"kv","options":{"version":"2"}}}`
	dataBody    = `{"request_id":"1","data":{"data":{"a":"` + canary + `"},"metadata":{"version":3,"created_time":"2026-01-01T00:00:00Z","deletion_time":"","destroyed":false}}}`
	metaBody    = `{"request_id":"1","data":{"current_version":3,"versions":{"3":{"created_time":"2026-01-01T00:00:00Z","deletion_time":"","destroyed":false}}}}`
)

// faulty is a Vault that answers one kind of request as told, and the others well.
func faulty(t *testing.T, kind string, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, good := "data", dataBody
		switch {
		case strings.HasSuffix(r.URL.Path, "/login"):
			asked, good = "login", grantedBody
		case strings.HasSuffix(r.URL.Path, "/lookup-self"):
			asked, good = "lookup", lookedUp
		case strings.HasSuffix(r.URL.Path, "/revoke-self"):
			asked, good = "revoke", `{"request_id":"1"}`
		case strings.Contains(r.URL.Path, "/ui/mounts/"):
			asked, good = "probe", mountBody
		case strings.Contains(r.URL.Path, "/metadata/"):
			asked, good = "metadata", metaBody
		}
		if asked == kind {
			handler(w, r)
			return
		}
		answer(w, http.StatusOK, good)
	}))
	t.Cleanup(server.Close)
	return server
}

// kinds are the requests that may meet a faulty server.
var kinds = []string{"login", "probe", "data", "metadata"}

// meet makes the request of a kind and answers how it ended.
func meet(t *testing.T, kind string, handler http.HandlerFunc) error {
	t.Helper()
	client := open(t, vault.Config{
		Endpoint: faulty(t, kind, handler).URL, Credential: canary, Login: &vault.Login{Mount: "approle", RoleID: "r"},
	})
	var doc *store.Document
	var err error
	if kind == "metadata" {
		doc, err = client.Poll(t.Context(), "secret/a", &store.Document{Version: "2"})
	} else {
		doc, err = client.Fetch(t.Context(), "secret/a")
	}
	if doc != nil {
		t.Errorf("%s: a document came back", kind)
	}
	return err
}

func TestClient_DoubtfulAnswers(t *testing.T) {
	t.Parallel()
	page := "<html>" + canary + "</html>"
	cases := map[string]struct {
		handler http.HandlerFunc
		reason  string
		text    string
	}{
		"a 404 page of somebody else is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, page, http.StatusNotFound) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"an empty 404 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, "") },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a 404 of JSON that is not Vault's is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, `{"message":"`+canary+`"}`) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a 403 page of somebody else is not the token's fault": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, page, http.StatusForbidden) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"an error page with 200 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"an empty 200 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "") },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a 204 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"an empty object is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "{}") },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"an envelope without content is not absent": {
			func(w http.ResponseWriter, _ *http.Request) {
				answer(w, 200, `{"request_id":"1","data":null,"auth":null}`)
			},
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"an envelope with content of another kind is not absent": {
			func(w http.ResponseWriter, _ *http.Request) {
				answer(w, 200, `{"request_id":"1","data":{"keys":["`+canary+`"]},"auth":{}}`)
			},
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a body cut short is not absent": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "4096")
				answer(w, 200, dataBody[:60])
			},
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a 404 cut short is not absent": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "4096")
				answer(w, 404, `{"errors":[]}`)
			},
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a connection cut before the answer is not absent": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
		"a server error is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, `{"errors":["`+canary+`"]}`) },
			v1alpha1.ReasonStoreUnreachable, "the store answered 500",
		},
		"a 502 page is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, page, http.StatusBadGateway) },
			v1alpha1.ReasonStoreUnreachable, "the store answered 502",
		},
		"a 503 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 503, page) },
			v1alpha1.ReasonStoreUnreachable, "the store answered 503",
		},
		"a sealed store is told": {
			func(w http.ResponseWriter, _ *http.Request) {
				answer(w, 503, `{"errors":["Vault is sealed","`+canary+`"]}`)
			},
			v1alpha1.ReasonStoreSealed, "the store is sealed",
		},
		"a gateway timeout is a timeout": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 504, canary) },
			v1alpha1.ReasonStoreTimeout, "the store answered 504",
		},
		"a redirect is not followed": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/"+canary, http.StatusTemporaryRedirect)
			},
			v1alpha1.ReasonStoreUnreachable, "the store answered with a redirect, which is not followed",
		},
		"an error body without end is a server error": {
			func(w http.ResponseWriter, _ *http.Request) {
				answer(w, 500, strings.Repeat(canary, store.MaxDocumentBytes/4))
			},
			v1alpha1.ReasonStoreUnreachable, "the answer is not Vault's",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range kinds {
				err := meet(t, kind, tc.handler)
				wantFailure(t, err, tc.reason)
				op := "fetch"
				if kind == "metadata" {
					op = "poll"
				}
				if want := op + " secret/a: " + tc.text; err == nil || err.Error() != want {
					t.Errorf("%s: got %v, want %q", kind, err, want)
				}
			}
		})
	}
}

func TestClient_DocumentsOfAFaultyStore(t *testing.T) {
	t.Parallel()
	wrapped := func(document string) string { return strings.Replace(dataBody, `{"a":"`+canary+`"}`, document, 1) }
	large := func(size int) string { return `{"a":"` + strings.Repeat("a", size-len(`{"a":""}`)) + `"}` }
	cases := map[string]struct {
		body   string
		reason string
	}{
		"a document that is a list":              {wrapped(`["` + canary + `"]`), v1alpha1.ReasonStoreUnreachable},
		"a document that is null":                {wrapped("null"), v1alpha1.ReasonStoreUnreachable},
		"no version":                             {strings.Replace(dataBody, `"version":3,`, "", 1), v1alpha1.ReasonStoreUnreachable},
		"no time":                                {strings.Replace(dataBody, "2026-01-01T00:00:00Z", "", 1), v1alpha1.ReasonStoreUnreachable},
		"something behind the answer":            {dataBody + canary, v1alpha1.ReasonStoreUnreachable},
		"a document of 4 MiB":                    {wrapped(large(store.MaxDocumentBytes)), ""},
		"a document of 4 MiB and a byte":         {wrapped(large(store.MaxDocumentBytes + 1)), v1alpha1.ReasonDocumentTooLarge},
		"a document that is larger by far":       {wrapped(large(3 * store.MaxDocumentBytes)), v1alpha1.ReasonDocumentTooLarge},
		"an empty document, which is a document": {wrapped("{}"), ""},
		"a document with a lease":                {strings.Replace(dataBody, "{", `{"lease_id":"`+canary+`",`, 1), v1alpha1.ReasonKeyInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := faulty(t, "data", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, tc.body) })
			_, err := open(t, vault.Config{Endpoint: server.URL, Credential: "t"}).Fetch(t.Context(), "secret/a")
			wantFailure(t, err, tc.reason)
		})
	}
}

func TestClient_TakesADocumentByteForByte(t *testing.T) {
	t.Parallel()
	const document = `{"z": 1.10, "a":9007199254740993,"e":1e400 , "n":{"b":-0,"a":[7.0e1]}}`
	server := faulty(t, "data", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, strings.Replace(dataBody, `{"a":"`+canary+`"}`, document, 1))
	})
	wantText(t, open(t, vault.Config{Endpoint: server.URL, Credential: "t"}), "secret/a", document)
}

func TestClient_Throttled(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status int
		header string
		reason string
		wait   time.Duration
	}{
		"a 429 with seconds":               {429, "17", v1alpha1.ReasonStoreThrottled, 17 * time.Second},
		"a 503 with seconds":               {503, "17", v1alpha1.ReasonStoreThrottled, 17 * time.Second},
		"a 429 without a header":           {429, "", v1alpha1.ReasonStoreThrottled, 0},
		"a 503 with a date that is past":   {503, "Mon, 02 Jan 2006 15:04:05 GMT", v1alpha1.ReasonStoreUnreachable, 0},
		"a year of silence is an hour":     {429, "31536000", v1alpha1.ReasonStoreThrottled, time.Hour},
		"a negative number is no patience": {429, "-5", v1alpha1.ReasonStoreThrottled, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range kinds {
				err := meet(t, kind, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", tc.header)
					answer(w, tc.status, `{"errors":["`+canary+`"]}`)
				})
				failure, ok := errors.AsType[*store.Error](err)
				if !ok || failure.Reason != tc.reason || failure.RetryAfter != tc.wait {
					t.Errorf("%s: got %+v, want %s and %s", kind, failure, tc.reason, tc.wait)
				}
				wantFailure(t, err, tc.reason)
			}
		})
	}
}

func TestClient_ClosedPort(t *testing.T) {
	t.Parallel()
	_, err := open(t, vault.Config{Endpoint: "http://127.0.0.1:1", Credential: canary}).Fetch(t.Context(), "secret/a")
	wantFailure(t, err, v1alpha1.ReasonStoreUnreachable)
	if err.Error() != "fetch secret/a: connection refused" {
		t.Errorf("got %q", err)
	}
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		cfg    vault.Config
		reason string
	}{
		"user info":              {vault.Config{Endpoint: "http://u:" + canary + "@127.0.0.1:1", Credential: "t"}, v1alpha1.ReasonClassInvalid},
		"a query":                {vault.Config{Endpoint: "http://127.0.0.1:1?token=" + canary, Credential: "t"}, v1alpha1.ReasonClassInvalid},
		"another scheme":         {vault.Config{Endpoint: "unix:///" + canary, Credential: "t"}, v1alpha1.ReasonClassInvalid},
		"an empty endpoint":      {vault.Config{Credential: "t"}, v1alpha1.ReasonClassInvalid},
		"a malformed URL":        {vault.Config{Endpoint: "http://" + canary + "%zz", Credential: "t"}, v1alpha1.ReasonClassInvalid},
		"a CA that is no PEM":    {vault.Config{Endpoint: "https://127.0.0.1:1", Credential: "t", TLS: link.TLS{CAPEM: []byte(canary)}}, v1alpha1.ReasonStoreTLSFailed},
		"no credential":          {vault.Config{Endpoint: "https://127.0.0.1:1"}, v1alpha1.ReasonCredentialNotFound},
		"a login without secret": {vault.Config{Endpoint: "https://127.0.0.1:1", Login: &vault.Login{Mount: "jwt", Role: "r"}}, v1alpha1.ReasonCredentialNotFound},
		"a token of two lines":   {vault.Config{Endpoint: "https://127.0.0.1:1", Credential: canary + "\nX-Other: 1"}, v1alpha1.ReasonCredentialRejected},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := vault.New(tc.cfg)
			wantFailure(t, err, tc.reason)
		})
	}
}

func TestClient_TakesNothingFromTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"VAULT_ADDR": "http://127.0.0.1:1", "VAULT_AGENT_ADDR": "http://127.0.0.1:1", "VAULT_TOKEN": "ambient",
		"VAULT_NAMESPACE": "ambient", "VAULT_HEADERS": `{"X-Ambient":"ambient"}`, "VAULT_WRAP_TTL": "60s",
		"VAULT_PROXY_ADDR": "http://127.0.0.1:1", "VAULT_HTTP_PROXY": "http://127.0.0.1:1",
		"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1",
		"VAULT_RATE_LIMIT": "0.001:1", "VAULT_MAX_RETRIES": "9", "VAULT_TLS_SERVER_NAME": "ambient", "VAULT_SRV_LOOKUP": "true",
	} {
		t.Setenv(name, value)
	}
	cases := map[string]struct {
		cfg       vault.Config // Endpoint is the path behind the server's address
		namespace string
		prefix    string
	}{
		"nothing stated":         {vault.Config{Credential: "own"}, "", ""},
		"a namespace":            {vault.Config{Credential: "own", Namespace: "team/a"}, "team/a", ""},
		"a path in the endpoint": {vault.Config{Credential: "own", Endpoint: "/gateway/vault/"}, "", "/gateway/vault"},
		"a login in a namespace": {vault.Config{Credential: "own", Namespace: "team", Login: &vault.Login{Mount: "a/b", Role: "r"}}, "team", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var seen []*http.Request
			note := func(body string) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, r)
					answer(w, 200, body)
				}
			}
			mux := http.NewServeMux()
			for path, body := range map[string]string{
				"/v1/auth/token/lookup-self": lookedUp, "/v1/auth/a/b/login": grantedBody, "/v1/auth/token/revoke-self": lookedUp,
				"/v1/sys/internal/ui/mounts/secret/a": mountBody, "/v1/secret/data/a": dataBody,
			} {
				mux.HandleFunc(tc.prefix+path, note(body))
			}
			server := httptest.NewServer(mux)
			defer server.Close()
			tc.cfg.Endpoint = server.URL + tc.cfg.Endpoint
			client := open(t, tc.cfg)
			if _, err := client.Fetch(t.Context(), "secret/a"); err != nil {
				t.Fatal(err)
			}
			if len(seen) != 3 {
				t.Fatalf("%d requests, want a login or look-up, a probe and a read", len(seen))
			}
			for i, r := range seen {
				token := "own"
				if tc.cfg.Login != nil {
					token = []string{"", canary, canary}[i]
				}
				if got := r.Header.Get("X-Vault-Token"); got != token {
					t.Errorf("%s: token %q, want %q", r.URL.Path, got, token)
				}
				if got := r.Header.Get("X-Vault-Namespace"); got != tc.namespace {
					t.Errorf("%s: namespace %q, want %q", r.URL.Path, got, tc.namespace)
				}
				if r.Header.Get("X-Ambient") != "" || r.Header.Get("X-Vault-Wrap-TTL") != "" {
					t.Errorf("%s: headers of the environment were sent", r.URL.Path)
				}
			}
		})
	}
	t.Run("a malformed variable is told and not quoted", func(t *testing.T) {
		t.Setenv("VAULT_CACERT", "/"+canary)
		_, err := vault.New(vault.Config{Endpoint: "http://127.0.0.1:1", Credential: "own"})
		wantFailure(t, err, v1alpha1.ReasonClassInvalid)
	})
}
