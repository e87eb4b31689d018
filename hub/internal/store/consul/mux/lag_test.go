package mux

import (
	"context"
	"slices"
	"testing"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

func TestMux_ARestoredSnapshotIsSeenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keys := numbered(150)
		for range 10 {
			for _, key := range keys {
				r.put(key, "one")
			}
		}
		r.during(t, keys, func() {
			pass(15 * time.Second)
			r.restore()
			pass(5 * time.Second)
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale", n)
			}
			r.put(keys[7], "two")
			pass(2 * time.Second)
			if n := r.stale(keys); n != 0 {
				t.Errorf("%d keys are stale after a change", n)
			}
		})
	})
}

// TestMux_AServerThatLagsTakesNoDocumentBack has queries that wait answered by a server
// that stands still.
func TestMux_AServerThatLagsTakesNoDocumentBack(t *testing.T) {
	for name, keys := range map[string][]policy.Key{"alone": numbered(16), "in groups": numbered(150)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for _, key := range keys {
					r.put(key, "one")
				}
				r.fallBehind(false)
				changed := []policy.Key{keys[3], keys[4]}
				r.during(t, keys, func() {
					pass(20 * time.Second)
					r.put(keys[3], "two")
					r.remove(keys[4])
					for _, key := range changed {
						_ = r.mux.Fetch(t.Context(), key) // another caller learns of it
					}
					for range 100 {
						pass(5 * time.Second)
						for _, key := range changed {
							if r.knows(key) != r.version(key) {
								t.Fatalf("%s is known as %s, is %s", key, r.knows(key), r.version(key))
							}
						}
					}
					before := r.requests()
					pass(10 * time.Minute)
					if n := r.requests() - before; n > 10*16*4 {
						t.Errorf("%d requests in ten minutes", n)
					}
				})
			})
		})
	}
}

func TestMux_AServerKnownToLagHidesAChangeForOneWait(t *testing.T) {
	for name, keys := range map[string][]policy.Key{"alone": numbered(16), "in groups": numbered(150)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for _, key := range keys {
					r.put(key, "one")
				}
				r.during(t, keys, func() {
					pass(20 * time.Second)
					r.fallBehind(true)
					r.put(keys[3], "two")
					r.remove(keys[4])
					pass(time.Minute)
					if n := r.stale(keys); n != 0 {
						t.Errorf("%d keys are stale", n)
					}
				})
			})
		})
	}
}

func TestMux_AWatchFromAnOlderVersionEndsAtOnce(t *testing.T) {
	cases := map[string]struct {
		keys    int
		refetch bool // or the change is seen by a group that the key is not yet in
	}{
		"after another fetch, for a key alone":     {1, true},
		"after another fetch, for one of many":     {150, true},
		"when its group woke before it came to it": {150, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				keys := numbered(tc.keys)
				for _, key := range keys {
					r.put(key, "one")
				}
				late, others := keys[len(keys)/2], slices.Delete(slices.Clone(keys), len(keys)/2, len(keys)/2+1)
				r.during(t, others, func() {
					pass(15 * time.Second)
					first := r.mux.Fetch(t.Context(), late)
					r.put(late, "two")
					pass(time.Second)
					if tc.refetch {
						r.mux.Fetch(t.Context(), late)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					if got := r.mux.Watch(ctx, late, first.version()); got.Err != nil || string(got.Doc.Text) != "two" {
						t.Errorf("got %+v", got)
					}
				})
			})
		})
	}
}

func TestAdvance_AnIndexThatGoesBackMakesAllKnowledgeOld(t *testing.T) {
	m := New(nil, open{})
	e := &entry{asOf: 900}
	m.entries["a"], m.index = e, 900
	g := &group{index: 900}
	m.advance(g, 80)
	if g.index != 0 || m.index != 80 || e.asOf != 0 || m.era != 1 {
		t.Errorf("group waits from %d, store is at %d, entry is as of %d, era %d", g.index, m.index, e.asOf, m.era)
	}
}
