package mux

import (
	"errors"
	"fmt"
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
