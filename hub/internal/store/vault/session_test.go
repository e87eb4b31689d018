package vault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// script is a Vault in memory that keeps time, so that a test can let hours pass: it
// gives tokens that hold for ttl, can be renewed until longest, and read every
// document but secret/forbidden.
type script struct {
	ttl, longest time.Duration
	loginStatus  int // of logins; zero for 200
	renewStatus  int // of renewals; zero for 200

	counts map[string]int
	born   map[string]time.Time
	ends   map[string]time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	status, body := s.answer(r.Header.Get("X-Vault-Token"), r.URL.Path)
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func (s *script) answer(token, path string) (int, string) {
	now, kind := time.Now(), path[strings.LastIndex(path, "/")+1:]
	s.counts[kind]++
	if kind == "login" && s.loginStatus == 0 {
		token = fmt.Sprintf("token-%d", s.counts["login"])
		s.born[token], s.ends[token] = now, now.Add(s.ttl)
		return 200, s.grant(token, now)
	}
	switch {
	case kind == "login":
		return s.loginStatus, `{"errors":["no"]}`
	case !now.Before(s.ends[token]):
		s.counts["late"]++
		return 403, `{"errors":["permission denied"]}`
	case kind == "renew-self" && s.renewStatus != 0:
		return s.renewStatus, `{"errors":["no"]}`
	case kind == "renew-self":
		s.ends[token] = now.Add(min(s.ttl, s.born[token].Add(s.longest).Sub(now)))
		return 200, s.grant(token, now)
	case kind == "revoke-self":
		delete(s.ends, token)
		return 204, ""
	case kind == "forbidden":
		return 403, `{"errors":["permission denied"]}`
	}
	return 200, `{"request_id":"1","data":{"a":"b"}}`
}

func (s *script) grant(token string, now time.Time) string {
	return fmt.Sprintf(`{"request_id":"1","auth":{"client_token":%q,"renewable":true,"lease_duration":%d}}`,
		token, int(s.ends[token].Sub(now).Seconds()))
}

// poll reads a document every 15 seconds for a time and counts the failures.
func (s *script) poll(t *testing.T, key policy.Key, d time.Duration) (failures int) {
	t.Helper()
	s.counts, s.born, s.ends = map[string]int{}, map[string]time.Time{}, map[string]time.Time{}
	cfg := Config{Endpoint: "http://vault.test", Credential: "secret", Login: &Login{Mount: "approle", RoleID: "r"}, KVVersion: 1}
	client, err := newClient(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for range int(d / (15 * time.Second)) {
		if _, err := client.Fetch(t.Context(), key); err != nil {
			failures++
		}
		<-tick.C
	}
	if err := client.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if live := len(s.ends); live > s.counts["login"]-s.counts["revoke-self"] {
		t.Errorf("%d tokens are left", live)
	}
	return failures
}

func TestSession_OverHours(t *testing.T) {
	t.Parallel()
	const ever = 1000 * time.Hour
	cases := map[string]struct {
		vault    script
		key      policy.Key
		logins   int
		renewals int
		failures int
		revoked  int
	}{
		"a token in use is renewed at two thirds of its time": {
			script{ttl: time.Hour, longest: ever}, "kv/a", 1, 35, 0, 1,
		},
		"a token near its longest time is replaced before it ends": {
			// Renewed at 40, 80, 120, 160 and 200 minutes; the last leaves 40 minutes, and
			// the next, after 27 of them, 13, which are too few.
			script{ttl: time.Hour, longest: 4 * time.Hour}, "kv/a", 7, 37, 0, 7,
		},
		"a token that lives on while renewals fail is replaced at its end": {
			script{ttl: time.Hour, longest: ever, renewStatus: 500}, "kv/a", 24, 24 * 80, 0, 0,
		},
		"a token that may not be renewed is replaced": {
			script{ttl: time.Hour, longest: ever, renewStatus: 400}, "kv/a", 36, 35, 0, 36,
		},
		"a key that stays forbidden costs a login a minute at most": {
			script{ttl: time.Hour, longest: ever}, "kv/forbidden", 1441, 0, 5760, 1441,
		},
		"a login that is refused is not tried at every poll": {
			script{ttl: time.Hour, longest: ever, loginStatus: 400}, "kv/a", 288, 0, 5760, 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				failures := tc.vault.poll(t, tc.key, 24*time.Hour)
				got := tc.vault.counts
				if got["login"] != tc.logins || got["renew-self"] != tc.renewals || failures != tc.failures || got["revoke-self"] != tc.revoked {
					t.Errorf("in a day %d logins, %d renewals, %d failures and %d revocations; want %d, %d, %d and %d",
						got["login"], got["renew-self"], failures, got["revoke-self"], tc.logins, tc.renewals, tc.failures, tc.revoked)
				}
			})
		})
	}
}

func TestSession_AnotherCallersEndIsNotMine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var flights flights
		gone, cancel := context.WithCancel(t.Context())
		worked := make(chan error, 2)
		go func() {
			worked <- flights.do(gone, "login", func() error {
				<-gone.Done()
				return gone.Err()
			})
		}()
		synctest.Wait()
		go func() { worked <- flights.do(t.Context(), "login", func() error { return nil }) }()
		synctest.Wait()
		cancel()
		first, second := <-worked, <-worked
		if (first == nil) == (second == nil) {
			t.Errorf("got %v and %v, want the context's error for the one that left alone", first, second)
		}
	})
}

func TestSession_ARefusalIsToldUntilTheStoreIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vault := &script{ttl: time.Hour, longest: time.Hour}
		vault.counts, vault.born, vault.ends = map[string]int{}, map[string]time.Time{}, map[string]time.Time{}
		cfg := Config{Endpoint: "http://vault.test", Credential: "secret", Login: &Login{Mount: "approle", RoleID: "r"}, KVVersion: 1}
		client, err := newClient(cfg, vault)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Fetch(t.Context(), "kv/a"); err != nil {
			t.Fatal(err)
		}
		clear(vault.ends) // every token is revoked, and so is the secret ID
		vault.loginStatus = 403
		for range 100 {
			_, err := client.Fetch(t.Context(), "kv/a")
			if store.ReasonOf(err) != v1alpha1.ReasonCredentialRejected {
				t.Fatalf("got %v", err)
			}
			<-time.After(15 * time.Second)
		}
		if got := vault.counts["login"]; got > 7 {
			t.Errorf("%d logins in 25 minutes, want at most 7", got)
		}
		vault.loginStatus = 0
		<-time.After(refusedFor)
		if _, err := client.Fetch(t.Context(), "kv/a"); err != nil {
			t.Errorf("it does not recover: %v", err)
		}
	})
}
