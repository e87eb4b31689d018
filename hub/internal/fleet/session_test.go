package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

func TestFleet_ASessionOfAnotherAgentEndsTheOlderAtOnce(t *testing.T) {
	for name, newcomer := range map[string]string{"an agent of another name": "b", "an agent without a name": ""} {
		t.Run(name, func(t *testing.T) {
			var lost []string
			f := fleet.New(fleet.Config{Detached: func(c string) { lost = append(lost, c) }})
			older := connect(t, f, 1, "a")
			newer := connect(t, f, 2, newcomer)
			if !errors.Is(older.Cause(), fleet.ErrSuperseded) {
				t.Fatalf("cause %v", older.Cause())
			}
			f.Detach(older)
			if len(lost) > 0 || !f.Connected("c") {
				t.Fatal("the older session's end disconnected the cluster")
			}
			f.Detach(newer)
			if diff := cmp.Diff([]string{"c"}, lost); diff != "" || f.Connected("c") {
				t.Fatalf("after the last session: %v", lost)
			}
		})
	}
}

func TestFleet_AnOlderEpochNeverReplacesANewerOne(t *testing.T) {
	f := fleet.New(fleet.Config{})
	newer := connect(t, f, 2, "a")
	if _, err := f.Connect("c", 1, "a"); !errors.Is(err, fleet.ErrSuperseded) {
		t.Errorf("an older one opens: %v", err)
	}
	if _, err := f.Connect("c", 1, "b"); !errors.Is(err, fleet.ErrSuperseded) {
		t.Errorf("another agent's older one opens: %v", err)
	}
	if newer.Cause() != nil || !f.Connected("c") {
		t.Errorf("the newer session ends: %v", newer.Cause())
	}
}

// The older session of an agent serves until the newer one has said what there is.
func TestFleet_AnAgentsSessionsHandOver(t *testing.T) {
	f := fleet.New(fleet.Config{Detached: func(string) { t.Error("the cluster was disconnected") }})
	older := connect(t, f, 1, "a")
	older.Replace([]fleet.Spec{spec(web, 1, "")})
	newer := connect(t, f, 2, "a")
	f.Deliver("c", web, answer(1, content("A", 9)))
	if diff := cmp.Diff([]string{"deliver 1 A@1"}, drain(t, older)); diff != "" {
		t.Errorf("the older session delivers (-want +got):\n%s", diff)
	}

	newer.Replace([]fleet.Spec{spec(web, 1, "A")})
	if !newer.Do(func() {
		for range 2 { // the second time it has already
			if !f.TakeOver(newer) {
				t.Error("it does not take over")
			}
		}
	}) || !errors.Is(older.Cause(), fleet.ErrSuperseded) {
		t.Fatalf("after that the older one ends with %v", older.Cause())
	}
	f.Deliver("c", web, answer(1, content("A", 9)))
	if diff := cmp.Diff([]string{"current A@1"}, drain(t, newer)); diff != "" {
		t.Errorf("then the newer one does (-want +got):\n%s", diff)
	}
	if got := f.Deliveries(); got != 1 {
		t.Errorf("%d deliveries are counted", got)
	}
	f.Detach(older)
	if f.TakeOver(older) {
		t.Error("a session that is over takes over")
	}
}

func TestFleet_ASessionThatFailsToTakeOverCostsNothing(t *testing.T) {
	f := fleet.New(fleet.Config{Detached: func(string) { t.Error("the cluster was disconnected") }})
	older := connect(t, f, 1, "a")
	f.Detach(connect(t, f, 2, "a"))
	third := connect(t, f, 3, "a")
	fourth := connect(t, f, 4, "a")
	if older.Cause() != nil || fourth.Cause() != nil || !errors.Is(third.Cause(), fleet.ErrSuperseded) {
		t.Errorf("of the older, the third and the fourth session end: %v, %v, %v", older.Cause(), third.Cause(), fourth.Cause())
	}
	f.Detach(older)
	if got := f.Sessions("c"); len(got) != 1 || got[0] != fourth {
		t.Errorf("the last one does not serve: %v", got)
	}
}

func TestFleet_EndClosesEverySessionOfACluster(t *testing.T) {
	f, suspended := fleet.New(fleet.Config{}), errors.New("suspended")
	older, newer := connect(t, f, 1, "a"), connect(t, f, 2, "a")
	f.End("c", suspended)
	for _, s := range []*fleet.Session{older, newer} {
		if !errors.Is(s.Cause(), suspended) {
			t.Errorf("epoch %d: cause %v", s.Epoch(), s.Cause())
		}
	}
}

func TestFleet_NoSessionOpensWhileAClusterIsTakenForDisconnected(t *testing.T) {
	f := fleet.New(fleet.Config{})
	var over atomic.Bool
	early := make(chan bool, 1)
	f.IfDisconnected("c", func() {
		go func() {
			_, err := f.Connect("c", 1, "a")
			early <- err != nil || !over.Load()
		}()
		for range 10_000 {
			runtime.Gosched() // every chance to be early
		}
		over.Store(true)
	})
	if !over.Load() {
		t.Fatal("a cluster without a session is disconnected")
	}
	if <-early {
		t.Error("a session opened meanwhile")
	}
	f.IfDisconnected("c", func() { t.Error("the cluster has a session") })
}

func TestFleet_ANewerSessionTakesOverOnceTheOlderIsAtRest(t *testing.T) {
	f := fleet.New(fleet.Config{})
	older := connect(t, f, 1, "a")
	var over atomic.Bool
	took, opened := make(chan bool, 2), make(chan *fleet.Session, 2)
	succeed := func(s *fleet.Session) {
		s.Do(func() { took <- f.TakeOver(s) && !over.Load() })
		opened <- s
	}
	if !older.Do(func() {
		second := connect(t, f, 2, "a")
		go succeed(second)
		<-older.Ended()
		go succeed(connect(t, f, 3, "a")) // one that waits must not let a third pass
		<-second.Ended()
		for range 10_000 {
			runtime.Gosched() // every chance to be early
		}
		over.Store(true)
	}) {
		t.Fatal("a session that goes on does nothing")
	}
	if first, second := <-took, <-took; first || second {
		t.Error("a newer session took over while the older was acting")
	}
	ran := 0
	for _, s := range []*fleet.Session{older, <-opened, <-opened} {
		if s.Do(func() { ran++ }) != (s.Cause() == nil) {
			t.Errorf("a session acts, and its end is %v", s.Cause())
		}
	}
	if ran != 1 {
		t.Errorf("%d sessions of one cluster act", ran)
	}
}

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
