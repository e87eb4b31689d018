package feed

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestPlan_SettledDocumentsKeepTheirPhase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1, 1<<31).Draw(t, "seconds")) * time.Second
		last := time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "last"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanos"))
		phase := rapid.Uint64().Draw(t, "phase")
		tick := nextTick(last, interval, phase)
		if wait := tick.Sub(last); wait <= 0 || wait > interval {
			t.Fatalf("the next tick is %s away at an interval of %s", wait, interval)
		}
		if uint64(tick.UnixNano())%uint64(interval) != phase%uint64(interval) {
			t.Fatal("the tick is out of phase")
		}
		if again := nextTick(tick.Add(interval/10), interval, phase); again.Sub(tick) != interval {
			t.Fatalf("jitter moved the following tick to %s after", again.Sub(tick))
		}
	})
}

func TestPlan_FailuresWaitTheirIntervalAndNoLongerThanTheLimit(t *testing.T) {
	t.Parallel()
	reasons := map[string]time.Duration{
		v1alpha1.ReasonStoreUnreachable:   outageCap,
		v1alpha1.ReasonStoreThrottled:     outageCap,
		v1alpha1.ReasonDocumentTooLarge:   faultCap,
		v1alpha1.ReasonKeyForbidden:       faultCap,
		v1alpha1.ReasonCredentialRejected: faultCap,
	}
	for reason, limit := range reasons {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				interval := time.Duration(rapid.Int64Range(1, 1<<31).Draw(t, "seconds")) * time.Second
				failures := rapid.IntRange(1, 200).Draw(t, "failures")
				now := time.Unix(1_000_000_000, 0)
				p := newPlan(feedID{key: "a"})
				for range failures {
					p = p.after(result{err: &store.Error{Reason: reason, Err: errors.New("x")}}, now)
				}
				longest := max(interval, limit)
				if wait := p.next(interval).Sub(now); wait < interval || wait > longest+longest/5 {
					t.Fatalf("waits %s at an interval of %s after %d failures", wait, interval, failures)
				}
				if p = p.after(result{doc: &store.Document{}}, now); p.next(interval).Sub(now) > interval+interval/10 {
					t.Fatal("a success did not end the backoff")
				}
			})
		})
	}
}

func TestNewPlan_PhasesAreSpreadAndStay(t *testing.T) {
	t.Parallel()
	seen := map[uint64]bool{}
	for _, id := range []string{"a", "b"} {
		for _, key := range []policy.Key{"x", "y", "z"} {
			phase := newPlan(feedID{sourceID{id, "1"}, key}).phase
			if seen[phase] {
				t.Errorf("two documents share the phase %d", phase)
			}
			seen[phase] = true
			if moved := newPlan(feedID{sourceID{id, "2"}, key}).phase; moved != phase {
				t.Error("another revision moved the phase")
			}
		}
	}
}
