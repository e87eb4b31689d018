package mux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// numbered are keys in one flat folder.
func numbered(n int) []policy.Key {
	keys := make([]policy.Key, n)
	for i := range keys {
		keys[i] = policy.Key(fmt.Sprintf("app/k%04d", i))
	}
	return keys
}

// teams are keys in four times ten folders: one group of each four holds ten of them.
func teams(n int) []policy.Key {
	keys := make([]policy.Key, n)
	for i := range keys {
		keys[i] = policy.Key(fmt.Sprintf("app/team-%02d/k%04d", i%40, i))
	}
	return keys
}

// bubble runs a case with time of its own.
func bubble(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, startRig(t)) })
}

func TestMux_EveryChangeIsSeenByFewRequests(t *testing.T) {
	cases := map[string]struct {
		keys   []policy.Key
		blocks int // blocking queries at once
		start  int // requests until all are watched
		change int // requests of one change
	}{
		"few keys have a query each":           {numbered(16), 16, 60, 3},
		"one more than has room":               {numbered(17), 16, 80, 4},
		"as many as an agent's limit":          {numbered(200), 16, 100, 5},
		"a large group is narrowed":            {teams(manyKeys), 16, 500, 20},
		"as many as there may be need no more": {numbered(manyKeys), 16, 500, 20},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				keys := tc.keys
				for _, key := range keys {
					r.put(key, "one")
				}
				r.latency = time.Millisecond
				r.during(t, keys, func() {
					pass(20 * time.Second)
					if n := r.stale(keys); n != 0 || r.requests() > tc.start {
						t.Errorf("%d keys stale, %d requests at the start; want at most %d", n, r.requests(), tc.start)
					}
					for what, do := range map[string]func(policy.Key){
						"a new version": func(key policy.Key) { r.put(key, "two") },
						"a deletion":    r.remove,
					} {
						before := r.requests()
						do(keys[len(keys)-3])
						pass(time.Second)
						if r.stale(keys) != 0 || r.requests()-before > tc.change {
							t.Errorf("%s: %d keys stale, %d requests, want at most %d", what, r.stale(keys), r.requests()-before, tc.change)
						}
						pass(5 * time.Second)
					}
					before := r.requests()
					pass(time.Hour)
					if n := r.requests() - before; n > 16*75+6*(len(keys)/batchKeys+16) {
						t.Errorf("%d requests in a quiet hour", n)
					}
				})
				// Reads are under way beside the blocking queries.
				if r.most > tc.blocks+maxReads {
					t.Errorf("%d requests at once, want %d", r.most, tc.blocks+maxReads)
				}
			})
		})
	}
}

// upset is something that happens to a store, and the time until the next.
type upset struct {
	what string
	key  int
	then time.Duration
}

func upsets(whats []string) *rapid.Generator[upset] {
	return rapid.Custom(func(t *rapid.T) upset {
		return upset{
			rapid.SampledFrom(whats).Draw(t, "what"),
			rapid.IntRange(0, 1000).Draw(t, "key"),
			time.Duration(rapid.SampledFrom([]int{0, 1, 40, 900, 3000, 20_000}).Draw(t, "then")) * time.Millisecond,
		}
	})
}

func (r *rig) upset(u upset, keys []policy.Key) {
	key := keys[u.key%len(keys)]
	switch u.what {
	case "put":
		r.put(key, "text")
	case "remove":
		r.remove(key)
	case "forbid", "allow":
		r.forbid(key, u.what == "forbid")
	case "restore":
		r.restore()
	case "forget":
		pass(15 * time.Minute) // Consul's least
		r.forget()
	case "lag", "partition":
		r.fallBehind(u.what == "partition")
	case "catch up":
		r.catchUp()
	case "down":
		r.fail(&store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: errors.New("down")})
	case "up":
		r.fail(nil)
	}
	pass(u.then)
}

// TestMux_NothingIsMissed does to a store what stores go through, in any order, and
// wants every follower to know the truth soon after.
func TestMux_NothingIsMissed(t *testing.T) {
	cases := map[string]struct {
		whats []string
		soon  time.Duration
	}{
		// A follower waits 15 s after an outage, a group as long after waking in vain.
		"changes and outages":                    {[]string{"put", "put", "put", "remove", "forget", "down", "up"}, 2*calmest + 10*time.Second},
		"also rights, and snapshots of long ago": {[]string{"put", "put", "remove", "forget", "down", "up", "restore", "forbid", "allow"}, recheck + 3*time.Minute},
		"also servers that lag":                  {[]string{"put", "put", "remove", "lag", "catch up", "down", "up"}, 2*calmest + 10*time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				latency := time.Duration(rapid.IntRange(0, 50).Draw(rt, "latency")) * time.Millisecond
				keys := rapid.SampledFrom([][]policy.Key{numbered(3), numbered(16), numbered(17), numbered(150), teams(40), teams(400)}).Draw(rt, "keys")
				steps := rapid.SliceOfN(upsets(tc.whats), 0, 30).Draw(rt, "steps")
				var wrong []string
				synctest.Test(t, func(t *testing.T) { wrong = missed(t, latency, keys, steps, tc.soon) })
				if len(wrong) > 0 {
					rt.Fatalf("%q", wrong)
				}
			})
		})
	}
}

// missed follows keys of a store through upsets and answers what was missed.
func missed(t *testing.T, latency time.Duration, keys []policy.Key, steps []upset, soon time.Duration) []string {
	t.Helper()
	r := startRig(t)
	r.latency, r.lag = latency, 10*latency
	r.mux.batch = 4 // so that groups are large
	for n, key := range keys {
		if n%3 > 0 {
			r.put(key, "one")
		}
	}
	r.during(t, keys, func() {
		for _, step := range steps {
			r.upset(step, keys)
		}
		r.catchUp()
		r.fail(nil)
		pass(soon)
	})
	var wrong []string
	for _, key := range keys {
		if is := r.version(key); r.knows(key) != is {
			wrong = append(wrong, fmt.Sprintf("%s: known %s, is %s", key, r.knows(key), is))
		}
	}
	return wrong
}

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

func TestNote_AnOvertakenReadingIsOld(t *testing.T) {
	at := func(version string, index uint64) Reading {
		return Reading{Doc: &store.Document{Version: version}, Index: index}
	}
	cases := map[string]struct {
		got  Reading
		sent uint64
		want bool
	}{
		"an older version that was asked for before":     {at("5", 5), 1, false},
		"an older version that was asked for later":      {at("5", 5), 9, true}, // a restored snapshot
		"a newer version that was asked for before":      {at("50", 50), 1, true},
		"the same version with a lower index is no news": {at("20", 20), 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := New(nil, open{})
			m.clock = 9
			e := &entry{known: true, version: "20", asOf: 30, updated: 5}
			if got := m.note(e, tc.got, tc.sent); got != tc.want {
				t.Errorf("taken: %t, want %t", got, tc.want)
			}
		})
	}
}
