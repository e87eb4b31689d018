package consul

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul/mux"
)

// secret stands for everything a server's answer may hold.
const secret = "canary-77a0"

// result is one of a transaction as Consul writes it.
func result(key string, index uint64, value []byte) map[string]any {
	return map[string]any{"KV": map[string]any{"Key": key, "CreateIndex": index, "ModifyIndex": index, "Value": value}}
}

// transaction answers like Consul, or whoever, to the batch of a, b and c.
func transaction(t *testing.T, status int, led bool, body string) *requests {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.URL.Path != "/v1/txn" || !r.URL.Query().Has("consistent") {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		if led {
			w.Header().Set("X-Consul-KnownLeader", "true")
		}
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return requestsTo(t, server.URL)
}

func requestsTo(t *testing.T, endpoint string) *requests {
	t.Helper()
	client, err := newLibrary(Config{Endpoint: endpoint, Token: secret}, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return &requests{client: client}
}

func results(all ...map[string]any) string {
	text, err := json.Marshal(map[string]any{"Results": all, "Errors": nil, "KnownLeader": true})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestRead_EachKeyIsToldApart(t *testing.T) {
	t.Parallel()
	large := make([]byte, store.MaxDocumentBytes+1)
	cases := map[string]struct {
		body string
		want string // of a, b and c
	}{
		"all are there":                     {results(result("a", 5, []byte("x")), result("b", 6, nil), result("c", 7, []byte("y"))), "5,6,7"},
		"without an index it is absent":     {results(result("a", 5, nil), result("b", 0, nil), result("c", 7, nil)), "5,DocumentNotFound,7"},
		"what is left out may not be read":  {results(result("c", 7, nil)), "KeyForbidden,KeyForbidden,7"},
		"nothing may be read":               {results(), "KeyForbidden,KeyForbidden,KeyForbidden"},
		"the order of the answer is no one": {results(result("c", 7, nil), result("a", 5, nil), result("b", 0, nil)), "5,DocumentNotFound,7"},
		"a large one is too large alone":    {results(result("a", 5, large), result("b", 6, nil), result("c", 7, nil)), "DocumentTooLarge,6,7"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := transaction(t, http.StatusOK, true, tc.body).Read(t.Context(), []policy.Key{"a", "b", "c"})
			if err != nil {
				t.Fatal(err)
			}
			var outcomes []string
			for _, r := range got {
				if r.Err != nil {
					outcomes = append(outcomes, store.ReasonOf(r.Err))
					continue
				}
				outcomes = append(outcomes, r.Doc.Version)
			}
			if is := strings.Join(outcomes, ","); is != tc.want {
				t.Errorf("got %s, want %s", is, tc.want)
			}
		})
	}
}

func TestRead_DoubtfulAnswersHoldForNoKey(t *testing.T) {
	t.Parallel()
	page := "<html>" + secret + "</html>"
	good := results(result("a", 5, []byte(secret)), result("b", 0, nil), result("c", 7, nil))
	cases := map[string]struct {
		status int
		led    bool
		body   string
		reason string
		cause  error // instead of a reason
	}{
		"an error page with 200":            {200, false, page, v1alpha1.ReasonStoreUnreachable, nil},
		"an error page with the header":     {200, true, page, v1alpha1.ReasonStoreUnreachable, nil},
		"results without the header":        {200, false, good, v1alpha1.ReasonStoreUnreachable, nil},
		"an empty 200":                      {200, true, "", v1alpha1.ReasonStoreUnreachable, nil},
		"a body cut short":                  {200, true, good[:len(good)/2], v1alpha1.ReasonStoreUnreachable, nil},
		"a key that nobody asked for":       {200, true, results(result("d", 5, nil)), v1alpha1.ReasonStoreUnreachable, nil},
		"a key twice":                       {200, true, results(result("a", 5, nil), result("a", 0, nil)), v1alpha1.ReasonStoreUnreachable, nil},
		"an absent key with a value":        {200, true, results(result("a", 0, []byte(secret))), v1alpha1.ReasonStoreUnreachable, nil},
		"a result that is no key":           {200, true, `{"Results":[{"Node":{}},null]}`, v1alpha1.ReasonStoreUnreachable, nil},
		"an unknown token":                  {403, false, "ACL not found " + secret, v1alpha1.ReasonCredentialRejected, nil},
		"a server error":                    {500, false, secret, v1alpha1.ReasonStoreUnreachable, nil},
		"a throttle":                        {429, false, secret, v1alpha1.ReasonStoreThrottled, nil},
		"an overload":                       {503, false, secret, v1alpha1.ReasonStoreThrottled, nil},
		"a gateway timeout":                 {504, false, secret, v1alpha1.ReasonStoreTimeout, nil},
		"a redirect":                        {307, false, "", v1alpha1.ReasonStoreUnreachable, nil},
		"a server without such operations":  {409, true, `{"Results":null,"Errors":[{"OpIndex":0,"What":"unknown KV verb"}]}`, "", mux.ErrRefused},
		"a proxy that lets only reads pass": {405, false, page, "", mux.ErrRefused},
		"a proxy that forbids it":           {403, false, page, "", mux.ErrRefused},
		"a path that is not there":          {404, false, page, "", mux.ErrRefused},
		"more than is read": {
			200, true, results(result("a", 5, make([]byte, store.MaxDocumentBytes)), result("b", 6, make([]byte, 1<<20))),
			"", mux.ErrTooLarge,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := transaction(t, tc.status, tc.led, tc.body).Read(t.Context(), []policy.Key{"a", "b", "c"})
			if got != nil || err == nil || store.ReasonOf(err) != tc.reason || !errors.Is(err, tc.cause) && tc.cause != nil {
				t.Fatalf("%d readings, error %v with reason %q", len(got), err, store.ReasonOf(err))
			}
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				if strings.Contains(fmt.Sprintf("%v %+v %#v", cause, cause, cause), secret) {
					t.Errorf("cause %T holds the canary", cause)
				}
			}
			if failure, ok := errors.AsType[*store.Error](err); ok && tc.status == 429 && failure.RetryAfter != 17*time.Second {
				t.Errorf("quiet for %s", failure.RetryAfter)
			}
		})
	}
}

func TestIndex_WhateverTheList(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status  int
		header  string
		body    string
		index   uint64
		reason  string
		refused bool
	}{
		"an index with keys":                      {200, "7", `["a/b"]`, 7, "", false},
		"more keys than anybody reads":            {200, "7", `["` + strings.Repeat("x", 8<<20) + `"]`, 7, "", false},
		"no key that may be read":                 {404, "9", "", 9, "", false},
		"a page of somebody else":                 {200, "", "<html>", 0, v1alpha1.ReasonStoreUnreachable, false},
		"a page of somebody else that is missing": {404, "", "<html>", 0, v1alpha1.ReasonStoreUnreachable, false},
		"a server error":                          {500, "", secret, 0, v1alpha1.ReasonStoreUnreachable, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI != "/v1/kv/a%20b/%C3%A9?index=3&keys=&separator=%2F&stale=&wait="+r.URL.Query().Get("wait") {
					t.Errorf("asked %s", r.RequestURI)
				}
				if tc.header != "" {
					w.Header().Set("X-Consul-Index", tc.header)
					w.Header().Set("X-Consul-LastContact", "0")
					w.Header().Set("X-Consul-KnownLeader", "true")
				}
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			t.Cleanup(server.Close)
			index, err := requestsTo(t, server.URL).Index(t.Context(), mux.Query{Prefix: "a b/é", After: 3})
			if index != tc.index || store.ReasonOf(err) != tc.reason || errors.Is(err, mux.ErrRefused) != tc.refused {
				t.Errorf("index %d, error %v with reason %q", index, err, store.ReasonOf(err))
			}
		})
	}
}

// asked is a server that answers one way when it is asked to wait, as any server may
// be, and another at once, which the leader alone does.
func asked(t *testing.T, waiting, leader http.HandlerFunc) *requests {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Has("index") != query.Has("stale") || query.Has("index") == query.Has("consistent") {
			t.Errorf("asked %s", r.RequestURI)
		}
		if query.Has("stale") {
			waiting(w, r)
			return
		}
		leader(w, r)
	}))
	t.Cleanup(server.Close)
	return requestsTo(t, server.URL)
}

// says answers with these headers.
func says(status int, index, lastContact, knownLeader, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"X-Consul-Index": index, "X-Consul-LastContact": lastContact, "X-Consul-KnownLeader": knownLeader,
		} {
			if value != "" {
				w.Header().Set(name, value)
			}
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestIndex_OfAServerThatMayLag(t *testing.T) {
	t.Parallel()
	leader := says(200, "90", "0", "true", "[]")
	cases := map[string]struct {
		waiting http.HandlerFunc
		index   uint64 // zero when the answer is not relied on
	}{
		"it is the leader":                          {says(200, "101", "0", "true", "[]"), 101},
		"it heard of the leader within the bound":   {says(200, "101", "10000", "true", "[]"), 101},
		"it heard of the leader before the bound":   {says(200, "101", "10001", "true", "[]"), 0},
		"it never heard of a leader":                {says(200, "101", "9223372036854", "true", "[]"), 0},
		"it knows no leader":                        {says(200, "101", "0", "false", "[]"), 0},
		"it says nothing of a leader":               {says(200, "101", "0", "", "[]"), 0},
		"nothing moved":                             {says(200, "100", "0", "true", "[]"), 100},
		"it is not where the question came from":    {says(200, "99", "0", "true", "[]"), 0},
		"it holds nothing below the prefix yet":     {says(404, "1", "0", "true", ""), 0},
		"nothing is left below the prefix":          {says(404, "101", "0", "true", ""), 101},
		"it forbids what the leader may not forbid": {says(403, "", "", "", "Permission denied"), 0},
		"it does not know the token":                {says(403, "", "", "", "ACL not found"), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, query := range map[string]mux.Query{"below a prefix": {Prefix: "a/", After: 100}, "of a key": {Prefix: "a/b", Exact: true, After: 100}} {
				r := asked(t, tc.waiting, leader)
				index, err := r.Index(t.Context(), query)
				if index != tc.index || errors.Is(err, mux.ErrLags) != (tc.index == 0) {
					t.Errorf("%s: index %d, error %v; want %d", what, index, err, tc.index)
				}
				query.After = 0
				if index, err := r.Index(t.Context(), query); index != 90 || err != nil {
					t.Errorf("%s: of the leader index %d, error %v", what, index, err)
				}
			}
		})
	}
}

func TestIndex_ARefusalIsTheLeaders(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body    string
		exact   bool
		reason  string
		refused bool
	}{
		"a token that may not list":          {"Permission denied", false, "", true},
		"a token that may not read":          {"Permission denied", true, v1alpha1.ReasonKeyForbidden, false},
		"an unknown token":                   {"ACL not found", false, v1alpha1.ReasonCredentialRejected, false},
		"an unknown token for a key that is": {"ACL not found", true, v1alpha1.ReasonCredentialRejected, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := says(403, "", "", "", tc.body)
			_, err := asked(t, answer, answer).Index(t.Context(), mux.Query{Prefix: "a", Exact: tc.exact})
			if store.ReasonOf(err) != tc.reason || errors.Is(err, mux.ErrRefused) != tc.refused {
				t.Errorf("error %v with reason %q", err, store.ReasonOf(err))
			}
		})
	}
}

// TestClient_ALostConnectionIsNoFailure closes a connection that was idle as the next
// batch is sent on it, which the transport repeats for reads alone.
func TestClient_ALostConnectionIsNoFailure(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.RemoteAddr]++
		again := seen[r.RemoteAddr] > 1
		mu.Unlock()
		if r.Header.Get("Idempotency-Key") != "" {
			t.Error("the header was sent")
		}
		if again {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Consul-KnownLeader", "true")
		fmt.Fprint(w, results(result("a", 5, nil), result("b", 6, nil)))
	}))
	t.Cleanup(server.Close)
	r := requestsTo(t, server.URL)
	for n := range 3 {
		if _, err := r.Read(t.Context(), []policy.Key{"a", "b"}); err != nil {
			t.Errorf("batch %s: %v", strconv.Itoa(n), err)
		}
	}
}
