package mux

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestMux_ARefusedKeyDisturbsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(100)
		for _, key := range keys[:50] {
			r.put(key, "one")
		}
		r.forbid(keys[3], true)
		r.during(t, keys, func() {
			pass(10 * time.Second)
			if r.knows(keys[3]) != v1alpha1.ReasonKeyForbidden || r.knows(keys[60]) != v1alpha1.ReasonDocumentNotFound {
				t.Errorf("a forbidden key is %s, an absent one %s", r.knows(keys[3]), r.knows(keys[60]))
			}
			r.put(keys[4], "two")
			r.put(keys[60], "new")
			r.remove(keys[5])
			r.forbid(keys[3], false)
			pass(20 * time.Second)
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale", n)
			}
		})
	})
}

func TestMux_WithoutTheRightToListSomeAreWatched(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(100)
		for _, key := range keys {
			r.put(key, "one")
		}
		r.noLists = true
		r.during(t, keys, func() {
			pass(time.Minute)
			for _, key := range keys {
				r.put(key, "two")
			}
			pass(time.Second)
			if n := 100 - r.stale(keys); n < maxGroups {
				t.Errorf("%d keys are current at once, want those that have a query each", n)
			}
			pass(20 * time.Second) // the followers poll when they are sent away
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale", n)
			}
			if lists, _ := r.counts(); lists > 2*maxGroups {
				t.Errorf("%d lists were tried", lists)
			}
			r.change(func() { r.noLists = false })
			pass(refusedFor + time.Minute)
			r.put(keys[99], "three")
			pass(time.Second)
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale once lists are granted", n)
			}
		})
	})
}

func TestMux_WithoutBatchesKeysAreReadOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(100)
		for _, key := range keys {
			r.put(key, "one")
		}
		r.noBatches = true
		r.during(t, keys, func() {
			pass(10 * time.Second)
			if _, batches := r.counts(); r.stale(keys) != 0 || len(batches) > maxReads {
				t.Errorf("%d keys are stale, %d batches were tried", r.stale(keys), len(batches))
			}
		})
	})
}

func TestMux_ABatchThatIsTooLargeIsHalved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(64)
		for _, key := range keys {
			r.put(key, strings.Repeat("x", batchBytes/8))
		}
		r.batchBytes = batchBytes
		r.during(t, keys, func() {
			pass(10 * time.Second)
			_, tried := r.counts()
			if n := r.stale(keys); n != 0 || len(tried) > 60 {
				t.Errorf("%d keys are stale after %d batches", n, len(tried))
			}
			pass(time.Minute)
			for _, key := range keys {
				r.put(key, strings.Repeat("y", batchBytes/8))
			}
			pass(5 * time.Second)
			_, batches := r.counts()
			for _, n := range batches[len(tried):] {
				if n > 8 {
					t.Errorf("a batch of %d keys whose sizes are known", n)
				}
			}
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale", n)
			}
		})
	})
}

func TestMux_AGroupThatWakesInVainGrowsCalm(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(1000)
		for _, key := range keys {
			r.put(key, "one")
		}
		r.during(t, keys, func() {
			pass(time.Minute)
			before := r.requests()
			for range 1200 {
				r.put("app/k0005/lock", "hot")
				pass(500 * time.Millisecond)
			}
			// One of ten groups of a hundred keys, all but calm.
			if n := r.requests() - before; n > 10*60/15*3+200 {
				t.Errorf("%d requests in ten minutes", n)
			}
			r.put(keys[5], "two")
			pass(calmest)
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale", n)
			}
		})
	})
}

func TestMux_RetryAfterIsKeptAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fail(&store.Error{Reason: v1alpha1.ReasonStoreThrottled, RetryAfter: time.Minute, Err: errors.New("429")})
		if got := r.mux.Fetch(t.Context(), "a"); store.ReasonOf(got.Err) != v1alpha1.ReasonStoreThrottled {
			t.Errorf("got %v", got.Err)
		}
		if quiet := <-r.gate.hushed; quiet != time.Minute {
			t.Errorf("quiet for %s", quiet)
		}
		r.mux.Close()
	})
}

func TestMux_AFailingStoreIsNotAskedWhileNobodyWaits(t *testing.T) {
	for name, keys := range map[string][]policy.Key{"alone": numbered(16), "in groups": numbered(150)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for _, key := range keys {
					r.put(key, "one")
				}
				r.during(t, keys, func() {
					pass(20 * time.Second)
					before := r.requests()
					r.fail(&store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: errors.New("down")})
					pass(14 * time.Second) // the followers come back after fifteen
					if n := r.requests() - before; n > 0 {
						t.Errorf("%d requests that nobody asked for", n)
					}
				})
			})
		})
	}
}

func TestMux_NothingIsLeftOfWhatNobodyAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(100)
		ctx, cancel := context.WithCancel(t.Context())
		for _, key := range keys {
			r.put(key, "one")
			go r.follow(ctx, key)
		}
		pass(time.Minute)
		cancel()
		pass(time.Minute)
		before := r.requests()
		pass(time.Hour)
		n := r.requests() - before
		r.mux.Close()
		if n != 0 || len(r.mux.entries) != 0 || len(r.mux.groups) != 0 {
			t.Errorf("%d requests, %d entries, %d groups", n, len(r.mux.entries), len(r.mux.groups))
		}
	})
}
