package fleet_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// Any order of specs, answers, acks and reconnects converges: once the cluster has
// answered everything, it has exactly what was wanted last.
func TestSession_Converges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := fleet.New(fleet.Config{MaxUnackedBytes: 40})
		s := connect(t, f, 1, "a")
		ids := []fleet.ID{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		gens := map[fleet.ID]int64{}
		want := map[fleet.ID]fleet.Answer{}
		have := map[fleet.ID]string{}
		var sent []fleet.Frame

		inventory := func() {
			var specs []fleet.Spec
			for _, id := range ids {
				specs = append(specs, spec(id, gens[id], have[id]))
			}
			s.Replace(specs)
			for id, a := range want {
				f.Deliver("c", id, a)
			}
		}
		receive := func(ctx context.Context) bool {
			frame, err := s.Next(ctx)
			if err != nil {
				return false
			}
			if frame.Nonce > 0 {
				sent = append(sent, frame)
			}
			return true
		}
		reply := func() {
			frame := sent[0]
			sent = sent[1:]
			code := fleet.Superseded
			if frame.Answer.Generation == gens[frame.ID] {
				code = fleet.Applied
				have[frame.ID] = string(frame.Answer.Content.ID)
			}
			s.Ack(fleet.Result{Nonce: frame.Nonce, ID: frame.ID, Code: code})
		}
		done, cancel := context.WithCancel(context.Background()) //nolint:usetesting // rapid.T has no context
		cancel()
		inventory()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom(ids).Draw(t, "id")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				gens[id]++
				delete(want, id)
				if rapid.Bool().Draw(t, "made anew") {
					s.Remove(id)
				}
				s.Upsert(spec(id, gens[id], have[id]))
			case 1:
				a := answer(gens[id], content(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "content"), 30))
				want[id] = a
				f.Deliver("c", id, a)
			case 2:
				receive(done)
			case 3:
				if len(sent) > 0 {
					reply()
				}
			case 4:
				s = connect(t, f, s.Epoch()+1, "a")
				sent = nil
				f.TakeOver(s)
				inventory()
			}
			if got := s.Queued(); got > 2*len(ids) {
				t.Fatalf("%d places in two queues, for %d Renders", got, len(ids))
			}
		}
		for receive(done) || len(sent) > 0 {
			if len(sent) > 0 {
				reply()
			}
		}
		for id, a := range want {
			if have[id] != string(a.Content.ID) {
				t.Fatalf("%v has %q, wanted %q", id, have[id], a.Content.ID)
			}
		}
	})
}
