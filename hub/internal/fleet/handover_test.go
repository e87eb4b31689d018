package fleet_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

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
