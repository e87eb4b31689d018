package fleet_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// A cluster that answers no delivery and makes its Renders anew all the time costs a
// place in the queue for each Render that it has, not for each that it had.
func TestSession_BoundsItsQueue(t *testing.T) {
	named := func(n int) fleet.ID { return fleet.ID{Namespace: "n", Name: fmt.Sprint(n)} }
	first, second, third := named(-1), named(-2), named(-3)
	stay := []fleet.Spec{spec(first, 1, ""), spec(second, 1, ""), spec(third, 1, "")}
	held, refused := answer(1, content("N", 9)), fleet.Answer{UID: "u", Generation: 1, Refusal: &fleet.Refusal{ReadyReason: "ClassNotAllowed"}}
	remove := func(s *fleet.Session, id fleet.ID) { s.Remove(id) }
	leaveOut := func(s *fleet.Session, _ fleet.ID) { s.Replace(stay) }
	for name, tc := range map[string]struct {
		id     func(n int) fleet.ID // of the Render that comes and goes
		answer fleet.Answer
		leave  func(*fleet.Session, fleet.ID)
	}{
		"under one name":                       {func(int) fleet.ID { return web }, held, remove},
		"under a new name each time":           {named, held, remove},
		"under a new name, and refused":        {named, refused, remove},
		"under a new name, in new inventories": {named, held, leaveOut},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(fleet.Config{MaxUnackedBytes: 10})
			s := connect(t, f, 1, "a")
			s.Replace(stay)
			f.Deliver("c", first, answer(1, content("A", 9)))
			drain(t, s)
			f.Deliver("c", second, answer(1, content("B", 9)))
			for n := range 100 {
				s.Upsert(spec(tc.id(n), 1, ""))
				f.Deliver("c", tc.id(n), tc.answer)
				tc.leave(s, tc.id(n))
			}
			f.Deliver("c", second, answer(1, content("B", 9))) // a new inventory asks again
			f.Deliver("c", third, answer(1, content("C", 9)))
			if got := s.Queued(); got != 2 {
				t.Errorf("%d places in the queues, want those of two Renders", got)
			}
			s.Ack(fleet.Result{Nonce: 1, ID: first, Code: fleet.Applied})
			got := drain(t, s)
			s.Ack(fleet.Result{Nonce: 2, ID: second, Code: fleet.Applied})
			got = append(got, drain(t, s)...)
			if diff := cmp.Diff([]string{"deliver 2 B@1", "deliver 3 C@1"}, got); diff != "" {
				t.Errorf("what stays goes in order (-want +got):\n%s", diff)
			}
		})
	}
}
