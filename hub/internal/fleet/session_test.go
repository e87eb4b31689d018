package fleet_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

var web = fleet.ID{Namespace: "shop", Name: "web"}

func content(id string, size int) *fleet.Content {
	return &fleet.Content{ID: []byte(id), Data: map[string][]byte{"k": make([]byte, size-1)}}
}

func answer(gen int64, c *fleet.Content) fleet.Answer {
	return fleet.Answer{UID: "u", Generation: gen, Content: c}
}

func spec(id fleet.ID, gen int64, have string) fleet.Spec {
	return fleet.Spec{ID: id, UID: "u", Generation: gen, Have: []byte(have)}
}

// connect opens a session of cluster c.
func connect(t interface{ Fatal(args ...any) }, f *fleet.Fleet, epoch int64, instance string) *fleet.Session {
	s, err := f.Connect("c", epoch, instance)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drain takes every frame that may be sent now, named by what it is.
func drain(t *testing.T, s *fleet.Session) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got []string
	for {
		f, err := s.Next(ctx)
		if err != nil {
			return got
		}
		switch {
		case f.Nonce > 0:
			got = append(got, fmt.Sprintf("deliver %d %s@%d", f.Nonce, f.Answer.Content.ID, f.Answer.Generation))
		case f.Answer.Refusal != nil:
			got = append(got, "refuse "+f.Answer.Refusal.ReadyReason)
		default:
			got = append(got, fmt.Sprintf("current %s@%d", f.Answer.Content.ID, f.Answer.Generation))
		}
	}
}

func TestSession(t *testing.T) {
	type step func(f *fleet.Fleet, s *fleet.Session)
	deliver := func(a fleet.Answer) step {
		return func(f *fleet.Fleet, _ *fleet.Session) { f.Deliver("c", web, a) }
	}
	upsert := func(sp fleet.Spec) step {
		return func(_ *fleet.Fleet, s *fleet.Session) { s.Upsert(sp) }
	}
	ack := func(nonce uint64, code fleet.Code) step {
		return func(_ *fleet.Fleet, s *fleet.Session) { s.Ack(fleet.Result{Nonce: nonce, ID: web, Code: code}) }
	}
	refused := fleet.Answer{UID: "u", Generation: 1, Refusal: &fleet.Refusal{ReadyReason: "ClassNotAllowed"}}

	for name, tc := range map[string]struct {
		steps []step
		want  [][]string // frames after each step
	}{
		"content the cluster lacks is delivered, once": {
			[]step{deliver(answer(1, content("A", 9))), deliver(answer(1, content("A", 9))), ack(1, fleet.Applied), deliver(answer(1, content("A", 9)))},
			[][]string{{"deliver 1 A@1"}, nil, nil, nil},
		},
		"content the cluster has is only confirmed": {
			[]step{upsert(spec(web, 1, "A")), deliver(answer(1, content("A", 9)))},
			[][]string{nil, {"current A@1"}},
		},
		"a new generation with the same content is only confirmed": {
			[]step{deliver(answer(1, content("A", 9))), ack(1, fleet.Applied), upsert(spec(web, 2, "A")), deliver(answer(2, content("A", 9)))},
			[][]string{{"deliver 1 A@1"}, nil, nil, {"current A@2"}},
		},
		"a target that lost its content gets it again": {
			[]step{deliver(answer(1, content("A", 9))), ack(1, fleet.Applied), upsert(spec(web, 1, "")), deliver(answer(1, content("A", 9)))},
			[][]string{{"deliver 1 A@1"}, nil, nil, {"deliver 2 A@1"}},
		},
		"while a delivery is unanswered only the latest waits": {
			[]step{deliver(answer(1, content("A", 9))), deliver(answer(1, content("B", 9))), deliver(answer(1, content("C", 9))), ack(1, fleet.Applied)},
			[][]string{{"deliver 1 A@1"}, nil, nil, {"deliver 2 C@1"}},
		},
		"content that went and came back while unanswered is not sent again": {
			[]step{deliver(answer(1, content("A", 9))), deliver(answer(1, content("B", 9))), deliver(answer(1, content("A", 9))), ack(1, fleet.Applied)},
			[][]string{{"deliver 1 A@1"}, nil, nil, nil},
		},
		"content that is wanted back while its successor is under way follows it": {
			[]step{
				deliver(answer(1, content("A", 9))), ack(1, fleet.Applied), deliver(answer(1, content("B", 9))),
				deliver(answer(1, content("A", 9))), ack(2, fleet.Applied),
			},
			[][]string{{"deliver 1 A@1"}, nil, {"deliver 2 B@1"}, nil, {"deliver 3 A@1"}},
		},
		"a refusal that comes back while content is under way is told again": {
			[]step{deliver(refused), deliver(answer(1, content("A", 9))), deliver(refused), ack(1, fleet.Applied)},
			[][]string{{"refuse ClassNotAllowed"}, {"deliver 1 A@1"}, nil, {"refuse ClassNotAllowed"}},
		},
		"an answer for another generation is not sent": {
			[]step{deliver(answer(2, content("A", 9)))},
			[][]string{nil},
		},
		"a superseded delivery leaves the Render owed": {
			[]step{deliver(answer(1, content("A", 9))), upsert(spec(web, 2, "")), deliver(answer(2, content("B", 9))), ack(1, fleet.Superseded)},
			[][]string{{"deliver 1 A@1"}, nil, nil, {"deliver 2 B@2"}},
		},
		"a result for another delivery counts for nothing": {
			[]step{deliver(answer(1, content("A", 9))), ack(7, fleet.Applied), deliver(answer(1, content("B", 9)))},
			[][]string{{"deliver 1 A@1"}, nil, nil},
		},
		"a failed delivery is sent again when the cluster asks": {
			[]step{deliver(answer(1, content("A", 9))), ack(1, fleet.Failed), deliver(answer(1, content("A", 9))), upsert(spec(web, 1, "")), deliver(answer(1, content("A", 9)))},
			[][]string{{"deliver 1 A@1"}, nil, nil, nil, {"deliver 2 A@1"}},
		},
		"a refusal is told once and needs no answer": {
			[]step{deliver(refused), deliver(refused), deliver(answer(1, content("A", 9)))},
			[][]string{{"refuse ClassNotAllowed"}, nil, {"deliver 1 A@1"}},
		},
		"a refusal after content is told, and the same content after it is confirmed": {
			[]step{deliver(answer(1, content("A", 9))), ack(1, fleet.Applied), deliver(refused), deliver(answer(1, content("A", 9)))},
			[][]string{{"deliver 1 A@1"}, nil, {"refuse ClassNotAllowed"}, {"current A@1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(fleet.Config{})
			s := connect(t, f, 1, "a")
			s.Replace([]fleet.Spec{spec(web, 1, "")})
			var got [][]string
			for _, do := range tc.steps {
				do(f, s)
				got = append(got, drain(t, s))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSession_BoundsUnackedBytes(t *testing.T) {
	f := fleet.New(fleet.Config{MaxUnackedBytes: 100})
	s := connect(t, f, 1, "a")
	var specs []fleet.Spec
	for i := range 4 {
		specs = append(specs, spec(fleet.ID{Namespace: "n", Name: fmt.Sprint(i)}, 1, ""))
	}
	s.Replace(specs)
	for i, size := range []int{500, 60, 60, 30} {
		f.Deliver("c", specs[i].ID, answer(1, content(fmt.Sprint(i), size)))
	}
	if got := drain(t, s); len(got) != 1 || got[0] != "deliver 1 0@1" {
		t.Fatalf("over the bound only the first goes, got %v", got)
	}
	s.Ack(fleet.Result{Nonce: 1, ID: specs[0].ID, Code: fleet.Applied})
	if diff := cmp.Diff([]string{"deliver 2 1@1"}, drain(t, s)); diff != "" {
		t.Fatalf("what fits goes, and nothing passes what waits (-want +got):\n%s", diff)
	}
	f.Deliver("c", specs[0].ID, fleet.Answer{UID: "u", Generation: 1, Refusal: &fleet.Refusal{ReadyReason: "ClassNotFound"}})
	if diff := cmp.Diff([]string{"refuse ClassNotFound"}, drain(t, s)); diff != "" {
		t.Fatalf("what costs nothing waits for nobody (-want +got):\n%s", diff)
	}
	s.Ack(fleet.Result{Nonce: 2, ID: specs[1].ID, Code: fleet.Applied})
	if diff := cmp.Diff([]string{"deliver 3 2@1", "deliver 4 3@1"}, drain(t, s)); diff != "" {
		t.Fatalf("the rest follows in order (-want +got):\n%s", diff)
	}
}

// What waits for the answer to an earlier delivery is not looked at in vain.
func TestSession_OnlyWhatMayLeaveIsQueued(t *testing.T) {
	f := fleet.New(fleet.Config{})
	s := connect(t, f, 1, "a")
	var specs []fleet.Spec
	for i := range 1000 {
		specs = append(specs, spec(fleet.ID{Namespace: "n", Name: fmt.Sprint(i)}, 1, ""))
	}
	s.Replace(specs)
	for _, version := range []string{"A", "B"} {
		for _, sp := range specs {
			f.Deliver("c", sp.ID, answer(1, content(version, 9)))
		}
		drain(t, s)
	}
	if got := s.Queued(); got != 0 {
		t.Errorf("%d Renders are in the queue", got)
	}
	s.Ack(fleet.Result{Nonce: 1, ID: specs[0].ID, Code: fleet.Applied})
	if diff := cmp.Diff([]string{"deliver 1001 B@1"}, drain(t, s)); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestContentID(t *testing.T) {
	h := fleet.NewHasher([]byte("0123456789abcdef0123456789abcdef"))
	same := h.ContentID(map[string][]byte{"a": []byte("1"), "b": []byte("2")})
	for name, data := range map[string]map[string][]byte{
		"a value moved between keys":  {"a": []byte("2"), "b": []byte("1")},
		"a byte moved into the key":   {"a1": nil, "b": []byte("2")},
		"a byte moved between values": {"a": []byte("1b2")},
	} {
		if string(h.ContentID(data)) == string(same) {
			t.Errorf("%s: same ID", name)
		}
	}
	if string(fleet.NewHasher([]byte("another key of thirty-two bytes!")).ContentID(map[string][]byte{"a": []byte("1"), "b": []byte("2")})) == string(same) {
		t.Error("another key gives the same ID")
	}
}
