package consul_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

// canary stands for everything a server's answer may hold.
const canary = "canary-5d1f"

// faulty is a Consul that answers as told.
func faulty(t *testing.T, handler http.HandlerFunc) *consul.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := open(t, consul.Config{Endpoint: server.URL, Token: canary})
	t.Cleanup(func() { client.Close() })
	return client
}

// answer writes what Consul would write, with its index.
func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("X-Consul-Index", "7")
	w.Header().Set("X-Consul-LastContact", "0")
	w.Header().Set("X-Consul-KnownLeader", "true")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// pair is a document as Consul writes it.
func pair(key string, value []byte) string {
	text, err := json.Marshal([]map[string]any{{
		"Key": key, "ModifyIndex": 7, "Value": base64.StdEncoding.EncodeToString(value),
	}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestClient_DoubtfulAnswers(t *testing.T) {
	t.Parallel()
	page := "<html>" + canary + "</html>"
	// Made before they are asked for: the time that takes is not the store's.
	large := pair("app/db", make([]byte, store.MaxDocumentBytes+1))
	endless := `[{"Key":"` + strings.Repeat("a", 3*store.MaxDocumentBytes)
	cases := map[string]struct {
		handler http.HandlerFunc
		reason  string
		text    string
	}{
		"Consul's own 404 is absent and says why it may be": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, "") },
			v1alpha1.ReasonDocumentNotFound, "absent or not readable by this token",
		},
		"a 404 page of somebody else is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, page, http.StatusNotFound) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"an error page with 200 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"an error page with 200 and an index is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, page) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"an empty 200 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "") },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"an empty list is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "[]") },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"null is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "null") },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"the document of another key is no document": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, pair("app/db2", []byte(canary))) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"a body cut short is not absent": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "4096")
				answer(w, 200, pair("app/db", []byte(canary))[:30])
			},
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"a connection cut before the answer is not absent": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			v1alpha1.ReasonStoreUnreachable, "the answer is not Consul's",
		},
		"a server error is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, "rpc error: "+canary) },
			v1alpha1.ReasonStoreUnreachable, "the store answered 500",
		},
		"a 503 is not absent": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 503, canary) },
			v1alpha1.ReasonStoreUnreachable, "the store answered 503",
		},
		"a gateway timeout is a timeout": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 504, canary) },
			v1alpha1.ReasonStoreTimeout, "the store answered 504",
		},
		"a missing permission is told": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 403, "Permission denied: "+canary) },
			v1alpha1.ReasonKeyForbidden, "the token may not read this key",
		},
		"an unknown token is told": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 403, "ACL not found "+canary) },
			v1alpha1.ReasonCredentialRejected, "the store does not know the token",
		},
		"a value over 4 MiB is too large": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, large) },
			v1alpha1.ReasonDocumentTooLarge, "the value is larger than 4 MiB",
		},
		"a body without end is too large": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, endless) },
			v1alpha1.ReasonDocumentTooLarge, "the value is larger than 4 MiB",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := faulty(t, tc.handler)
			doc, err := client.Fetch(t.Context(), "app/db")
			if doc != nil {
				t.Fatal("a document came back")
			}
			wantFailure(t, err, tc.reason, "fetch app/db: "+tc.text)
			if _, err := client.Watch(t.Context(), "app/db", "3"); store.ReasonOf(err) != tc.reason {
				t.Errorf("watch: %v with reason %q, want %s", err, store.ReasonOf(err), tc.reason)
			}
		})
	}
}

// TestClient_AFollowerSaysOnlyThatSomethingMoved has a server that waits answer what it
// held long ago, or nothing, as one does that has lost its leader or has just started.
func TestClient_AFollowerSaysOnlyThatSomethingMoved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		index, lastContact, knownLeader string
		status                          int
	}{
		"an older document, a minute after its leader's last word": {"5", "60000", "true", 200},
		"an older document, without a leader":                      {"5", "0", "false", 200},
		"an older document under a newer index":                    {"8", "0", "true", 200},
		"an older index":                                           {"2", "0", "true", 200},
		"no document, a minute after its leader's last word":       {"5", "60000", "true", 404},
		"no document under an older index":                         {"1", "0", "true", 404},
		"no document under a newer index":                          {"8", "0", "true", 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := faulty(t, func(w http.ResponseWriter, r *http.Request) {
				if !r.URL.Query().Has("stale") {
					answer(w, 200, pair("app/db", []byte("now")))
					return
				}
				w.Header().Set("X-Consul-Index", tc.index)
				w.Header().Set("X-Consul-LastContact", tc.lastContact)
				w.Header().Set("X-Consul-KnownLeader", tc.knownLeader)
				w.WriteHeader(tc.status)
				fmt.Fprint(w, pair("app/db", []byte("long ago")))
			})
			doc, err := client.Watch(t.Context(), "app/db", "3")
			if err != nil || string(doc.Text) != "now" || doc.Version != "7" {
				t.Errorf("got %v, %v", doc, err)
			}
		})
	}
}

// wantFailure checks reason and text, and that no cause holds the canary.
func wantFailure(t *testing.T, err error, reason, text string) {
	t.Helper()
	if store.ReasonOf(err) != reason || err.Error() != text {
		t.Errorf("error %q with reason %q; want %q with %s", err, store.ReasonOf(err), text, reason)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", cause, cause, cause), canary) {
			t.Errorf("cause %T holds the canary", cause)
		}
	}
}

func TestClient_TakesTheLargestValue(t *testing.T) {
	t.Parallel()
	largest := pair("app/db", make([]byte, store.MaxDocumentBytes))
	client := faulty(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, largest) })
	doc, err := client.Fetch(t.Context(), "app/db")
	if err != nil || len(doc.Text) != store.MaxDocumentBytes {
		t.Fatalf("got %v", err)
	}
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
		"a 429 with nonsense":              {429, "soon", v1alpha1.ReasonStoreThrottled, 0},
		"a 503 with a date that is past":   {503, "Mon, 02 Jan 2006 15:04:05 GMT", v1alpha1.ReasonStoreUnreachable, 0},
		"a year of silence is an hour":     {429, "31536000", v1alpha1.ReasonStoreThrottled, time.Hour},
		"a negative number is no patience": {429, "-5", v1alpha1.ReasonStoreThrottled, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := faulty(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tc.header)
				answer(w, tc.status, canary)
			})
			_, err := client.Fetch(t.Context(), "app/db")
			failure, ok := errors.AsType[*store.Error](err)
			if !ok || failure.Reason != tc.reason || failure.RetryAfter != tc.wait {
				t.Errorf("got %+v, want %s and %s", failure, tc.reason, tc.wait)
			}
		})
	}
}

func TestClient_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, token sent: %t", r.Header.Get("X-Consul-Token") != "")
	}))
	defer elsewhere.Close()
	client := faulty(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/"+canary, http.StatusTemporaryRedirect)
	})
	_, err := client.Fetch(t.Context(), "app/db")
	wantFailure(t, err, v1alpha1.ReasonStoreUnreachable,
		"fetch app/db: the store answered with a redirect, which is not followed")
}

func TestClient_ClosedPort(t *testing.T) {
	t.Parallel()
	client := open(t, consul.Config{Endpoint: "http://127.0.0.1:1"})
	defer client.Close()
	_, err := client.Fetch(t.Context(), "app/db")
	wantFailure(t, err, v1alpha1.ReasonStoreUnreachable, "fetch app/db: connection refused")
}

func TestClient_TLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, pair("app/db", []byte("text")))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	cases := map[string]struct {
		cfg  consul.Config
		text string
	}{
		"the class's CA is trusted":          {consul.Config{Endpoint: server.URL, TLS: link.TLS{CAPEM: ca}}, ""},
		"the server name is the class's":     {consul.Config{Endpoint: server.URL, TLS: link.TLS{CAPEM: ca, ServerName: "example.com"}}, ""},
		"an unknown authority is refused":    {consul.Config{Endpoint: server.URL}, "the certificate is signed by an unknown authority"},
		"another server's name is refused":   {consul.Config{Endpoint: server.URL, TLS: link.TLS{CAPEM: ca, ServerName: "other"}}, "the certificate is for another name"},
		"a server without TLS is told apart": {consul.Config{Endpoint: strings.Replace(plain.URL, "http:", "https:", 1)}, "the TLS handshake failed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t, tc.cfg)
			defer client.Close()
			_, err := client.Fetch(t.Context(), "app/db")
			switch {
			case tc.text == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.text != "":
				wantFailure(t, err, v1alpha1.ReasonStoreTLSFailed, "fetch app/db: "+tc.text)
			}
		})
	}
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		cfg    consul.Config
		reason string
	}{
		"user info":           {consul.Config{Endpoint: "http://u:" + canary + "@127.0.0.1:1"}, v1alpha1.ReasonClassInvalid},
		"a query":             {consul.Config{Endpoint: "http://127.0.0.1:1?token=" + canary}, v1alpha1.ReasonClassInvalid},
		"another scheme":      {consul.Config{Endpoint: "unix:///" + canary}, v1alpha1.ReasonClassInvalid},
		"an empty endpoint":   {consul.Config{}, v1alpha1.ReasonClassInvalid},
		"a malformed URL":     {consul.Config{Endpoint: "http://" + canary + "%zz"}, v1alpha1.ReasonClassInvalid},
		"a CA that is no PEM": {consul.Config{Endpoint: "https://127.0.0.1:1", TLS: link.TLS{CAPEM: []byte(canary)}}, v1alpha1.ReasonStoreTLSFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := consul.New(tc.cfg)
			if store.ReasonOf(err) != tc.reason || strings.Contains(err.Error(), canary) {
				t.Errorf("got %v with reason %q, want %s", err, store.ReasonOf(err), tc.reason)
			}
		})
	}
}

func TestClient_SendsItsOwnKeyAndOptionsOnly(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("ambient"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"CONSUL_HTTP_ADDR": "127.0.0.1:1", "CONSUL_HTTP_TOKEN": "ambient", "CONSUL_HTTP_TOKEN_FILE": tokenFile,
		"CONSUL_HTTP_AUTH": "ambient:ambient", "CONSUL_HTTP_SSL": "true", "CONSUL_NAMESPACE": "ambient",
		"CONSUL_PARTITION": "ambient", "CONSUL_TLS_SERVER_NAME": "ambient", "CONSUL_CACERT": "/ambient",
		"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	var seen *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		answer(w, 404, "")
	}))
	defer server.Close()

	cases := map[string]struct {
		cfg   consul.Config // Endpoint is the path behind the server's address
		key   policy.Key
		uri   string
		token string
	}{
		"a path in the endpoint": {consul.Config{Endpoint: "/proxy/consul/"}, "a", "/proxy/consul/v1/kv/a?consistent=", ""},
		"nothing stated":         {consul.Config{}, "a", "/v1/kv/a?consistent=", ""},
		"everything stated": {
			consul.Config{Token: "own", Datacenter: "dc", Namespace: "ns", Partition: "p"},
			"a",
			"/v1/kv/a?consistent=&dc=dc&ns=ns&partition=p", "own",
		},
		"the ambient token stated": {consul.Config{Token: "ambient"}, "a", "/v1/kv/a?consistent=", "ambient"},
		"a blank in the key":       {consul.Config{}, "a b/c", "/v1/kv/a%20b/c?consistent=", ""},
		"a key beyond ASCII":       {consul.Config{}, "é", "/v1/kv/%C3%A9?consistent=", ""},
		"a key with operators":     {consul.Config{}, "a&b=c;d+e", "/v1/kv/a&b=c;d+e?consistent=", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Endpoint = server.URL + tc.cfg.Endpoint
			client := open(t, tc.cfg)
			defer client.Close()
			wantReason(t, client, tc.key, v1alpha1.ReasonDocumentNotFound)
			if seen.RequestURI != tc.uri || seen.Header.Get("X-Consul-Token") != tc.token {
				t.Errorf("asked %s with token %q, want %s with %q", seen.RequestURI, seen.Header.Get("X-Consul-Token"), tc.uri, tc.token)
			}
			if _, _, ambient := seen.BasicAuth(); ambient {
				t.Error("basic authentication was sent")
			}
		})
	}
}
