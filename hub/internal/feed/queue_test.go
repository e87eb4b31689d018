package feed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestQueue_NextIsTheFirstOfTheMostUrgentThatMayPass(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var waiting []*turn // in the order of coming
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
				at := rapid.IntRange(0, len(waiting)-1).Draw(t, "at")
				if left := waiting[at]; !q.leave(left) || q.leave(left) {
					t.Fatal("a turn leaves once")
				}
				waiting = append(waiting[:at], waiting[at+1:]...)
			},
			"": func(t *rapid.T) {
				placed, free := rapid.Bool().Draw(t, "placed"), rapid.Bool().Draw(t, "free")
				var want *turn
				for _, w := range waiting {
					if (w.place && placed || !w.place && free) && (want == nil || w.priority < want.priority) {
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
