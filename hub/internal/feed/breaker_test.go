package feed

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

func because(reason string) error {
	return &store.Error{Reason: reason, Op: "fetch", Key: "team-a/secret", Err: errors.New("told to fail")}
}

var (
	errUnreachable = because(v1alpha1.ReasonStoreUnreachable)
	errForbidden   = because(v1alpha1.ReasonKeyForbidden)
)

// times repeats the ends of requests.
func times(n int, ends ...error) []error {
	var all []error
	for range n {
		all = append(all, ends...)
	}
	return all
}

func TestBreaker_WhatTakesAStoreToBeDown(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		ends []error
		down bool
	}{
		"failures in a row":                              {times(tripAfter, errUnreachable), true},
		"of whatever kind that is the store's":           {[]error{errUnreachable, because(v1alpha1.ReasonStoreTimeout), because(v1alpha1.ReasonStoreTLSFailed), because(v1alpha1.ReasonStoreSealed), errUnreachable}, true},
		"one less does not":                              {times(tripAfter-1, errUnreachable), false},
		"answers between them do not":                    {times(100, errUnreachable, errUnreachable, nil), false},
		"refusals of a key are answers":                  {times(100, errForbidden), false},
		"and they end the row":                           {times(100, errUnreachable, errForbidden), false},
		"a rejected credential is an answer":             {times(100, because(v1alpha1.ReasonCredentialRejected)), false},
		"a store that asks for quiet is up":              {times(100, because(v1alpha1.ReasonStoreThrottled)), false},
		"requests that were given up say nothing":        {times(100, context.Canceled), false},
		"and do not end the row":                         {times(tripAfter, errUnreachable, context.Canceled), true},
		"an answer of one that was sent before is heard": {append(times(tripAfter, errUnreachable), nil), false},
		"a refusal of one that was sent before, too":     {append(times(tripAfter, errUnreachable), errForbidden), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b breaker
			for _, end := range tc.ends {
				b.after(end, false, time.Unix(0, 0))
			}
			if b.isDown() != tc.down {
				t.Errorf("down is %t, want %t", b.isDown(), tc.down)
			}
		})
	}
}

func TestBreaker_ProbesAreFartherApartUpToFifteenSeconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b breaker
		now := time.Unix(1_000_000_000, 0)
		for n := range tripAfter {
			want := stays
			if n == tripAfter-1 {
				want = down
			}
			if got := b.after(errUnreachable, false, now); got != want {
				t.Fatalf("failure %d turns %d, want %d", n, got, want)
			}
		}
		for _, seconds := range []float64{1, 2, 4, 8, 12.5, 12.5, 12.5} {
			wait := b.retryAt.Sub(now)
			if least := time.Duration(seconds * 1e9); wait < least || wait > least+least/5 || wait > 15*time.Second {
				t.Fatalf("the next probe is %s away, want %s and up to a fifth more", wait, least)
			}
			late := b.retryAt
			if b.after(errUnreachable, false, now); b.retryAt != late {
				t.Fatal("a failure that is no probe's moved the next probe")
			}
			now = b.retryAt
			if got := b.after(because(v1alpha1.ReasonStoreSealed), true, now); got != stays {
				t.Fatalf("a failed probe turns %d", got)
			}
		}
		if b.why.Reason != v1alpha1.ReasonStoreSealed || b.why.Key != "" {
			t.Fatalf("it is down because of %v, want the latest failure and no key", b.why)
		}
		if got := b.after(nil, true, now); got != up || b.isDown() || !b.retryAt.IsZero() {
			t.Fatal("a probe that is answered does not end it")
		}
	})
}
