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

func TestPlan_FailuresWait(t *testing.T) {
	t.Parallel()
	type bounds struct {
		least, most func(interval time.Duration) time.Duration
	}
	upTo := func(limit time.Duration) bounds {
		return bounds{func(i time.Duration) time.Duration { return i }, func(i time.Duration) time.Duration { return max(i, limit) }}
	}
	withItsStore := upTo(outageCap)
	withItsStore.least = func(i time.Duration) time.Duration { return min(i, outageCap) }
	for reason, wait := range map[string]bounds{
		v1alpha1.ReasonStoreUnreachable:   withItsStore,
		v1alpha1.ReasonStoreSealed:        withItsStore,
		v1alpha1.ReasonStoreThrottled:     upTo(outageCap),
		v1alpha1.ReasonDocumentTooLarge:   upTo(faultCap),
		v1alpha1.ReasonKeyForbidden:       upTo(faultCap),
		v1alpha1.ReasonCredentialRejected: upTo(faultCap),
	} {
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
				most := wait.most(interval)
				if took := p.next(interval).Sub(now); took < wait.least(interval) || took > most+most/5 {
					t.Fatalf("waits %s at an interval of %s after %d failures", took, interval, failures)
				}
				if p = p.after(result{doc: &store.Document{}}, now); p.next(interval).Sub(now) > interval+interval/10 {
					t.Fatal("a success did not end the backoff")
				}
			})
		})
	}
}

// A store that fails for one document alone is not asked for it hundreds of times a day.
func TestPlan_AnOutageOfOneDocumentGetsRare(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	start := time.Unix(1_000_000_000, 0)
	p, now, tries := newPlan(feedID{key: "a"}), start, 0
	for now.Sub(start) < day {
		p = p.after(result{err: &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: errors.New("x")}}, now)
		now = p.next(day)
		tries++
	}
	if tries < 5 || tries > 15 {
		t.Errorf("%d tries in the first day", tries)
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
