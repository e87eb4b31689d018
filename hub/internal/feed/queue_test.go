package feed

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestQueue_NextIsTheMostUrgentThatMayPassAndEveryFifthTimeTheOldest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var waiting []*turn // in the order of coming
		var overtaking int
		mayPass := func(placed, free bool) (may []*turn) {
			for _, w := range waiting {
				if w.place && placed || !w.place && free {
					may = append(may, w)
				}
			}
			return may
		}
		gone := func(left *turn) {
			waiting = slices.DeleteFunc(waiting, func(w *turn) bool { return w == left })
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				joined := &turn{priority: store.Priority(rapid.IntRange(0, int(store.Periodic)).Draw(t, "priority")), place: rapid.Bool().Draw(t, "place")}
				q.join(joined)
				waiting = append(waiting, joined)
			},
			"leave": func(t *rapid.T) {
				if len(waiting) == 0 {
					return
				}
				left := rapid.SampledFrom(waiting).Draw(t, "who")
				if !q.leave(left) || q.leave(left) {
					t.Fatal("a turn leaves once")
				}
				gone(left)
			},
			"pass": func(t *rapid.T) {
				placed, free := rapid.Bool().Draw(t, "placed"), rapid.Bool().Draw(t, "free")
				may := mayPass(placed, free)
				if len(may) == 0 {
					return
				}
				passed := q.next(placed, free)
				q.pass(passed, placed, free)
				if overtaking++; passed == may[0] {
					overtaking = 0
				}
				gone(passed)
			},
			"": func(t *rapid.T) {
				placed, free := rapid.Bool().Draw(t, "placed"), rapid.Bool().Draw(t, "free")
				var want *turn
				for _, w := range mayPass(placed, free) {
					if want == nil || overtaking < 4 && w.priority < want.priority {
						want = w
					}
				}
				if got := q.next(placed, free); got != want {
					t.Fatalf("next is %+v, want %+v", got, want)
				}
			},
		})
	})
}

func TestQueue_BeforeCountsWhoIsAsUrgentOrMore(t *testing.T) {
	t.Parallel()
	var q queue
	for p := range store.Priorities {
		q.join(&turn{priority: p, place: true})
		q.join(&turn{priority: p})
	}
	var got []int
	for p := range store.Priorities {
		got = append(got, q.before(p))
	}
	if diff := cmp.Diff([]int{2, 4, 6}, got); diff != "" {
		t.Error(diff)
	}
}
