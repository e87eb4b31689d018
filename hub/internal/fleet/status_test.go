package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

func all(*fleet.RenderStatus) bool { return true }

// status is that of cluster c and its one Render.
func status(t *testing.T, f *fleet.Fleet) (fleet.Status, fleet.RenderStatus) {
	t.Helper()
	s, ok := f.Status("c", all)
	if !ok || len(s.Renders) != 1 {
		t.Fatalf("got %+v, %v", s, ok)
	}
	if one, ok := f.RenderStatus("c", s.Renders[0].ID); !ok || !cmp.Equal(one, s.Renders[0]) {
		t.Errorf("asked for by name: %+v, %v, and in the list %+v", one, ok, s.Renders[0])
	}
	return s, s.Renders[0]
}

func refusedFor(cause, message string) fleet.Answer {
	return fleet.Answer{UID: "u", Generation: 1, Refusal: &fleet.Refusal{ReadyReason: "RenderFailed", CauseReason: cause, Message: message}}
}

// take takes one frame.
func take(t *testing.T, s *fleet.Session) fleet.Frame {
	t.Helper()
	frame, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestStatus_SinceWhenAnOutcomeIsWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		f := fleet.New(fleet.Config{})
		s := connect(t, f, 1, "a")
		s.Replace([]fleet.Spec{spec(web, 1, "")})
		minute := func() { <-time.After(time.Minute) }
		for _, step := range []struct {
			name    string
			do      func()
			settled bool
			failure string // of the hub or the cluster
			since   int    // minutes after the beginning
		}{
			{"nothing is told yet", minute, false, "", 0},
			{"the hub refuses", func() { f.Deliver("c", web, refusedFor("StoreSealed", "a")); take(t, s) }, true, "StoreSealed", 1},
			{"it refuses in other words", func() { minute(); f.Deliver("c", web, refusedFor("StoreSealed", "b")); take(t, s) }, true, "StoreSealed", 1},
			{"it refuses for another reason", func() { f.Deliver("c", web, refusedFor("StoreTimeout", "b")); take(t, s) }, true, "StoreTimeout", 2},
			{"the cluster asks again", func() { minute(); s.Upsert(spec(web, 1, "")) }, false, "StoreTimeout", 3},
			{"it is refused as before", func() { f.Deliver("c", web, refusedFor("StoreTimeout", "b")); take(t, s) }, true, "StoreTimeout", 2},
			{"the cluster cannot apply", func() {
				f.Deliver("c", web, answer(1, content("A", 9)))
				s.Ack(fleet.Result{ID: web, Nonce: take(t, s).Nonce, Code: fleet.Failed, Reason: "QuotaExceeded"})
			}, true, "QuotaExceeded", 3},
			{"a newer session takes over", func() {
				minute()
				newer := connect(t, f, 2, "a")
				newer.Replace([]fleet.Spec{spec(web, 1, "")})
				f.TakeOver(newer)
				s = newer
			}, false, "QuotaExceeded", 4},
			{"that one cannot apply either", func() {
				f.Deliver("c", web, answer(1, content("A", 9)))
				s.Ack(fleet.Result{ID: web, Nonce: take(t, s).Nonce, Code: fleet.Failed, Reason: "QuotaExceeded"})
			}, true, "QuotaExceeded", 3},
			{"the cluster applies", func() {
				s.Upsert(spec(web, 1, ""))
				f.Deliver("c", web, answer(1, content("A", 9)))
				s.Ack(fleet.Result{ID: web, Nonce: take(t, s).Nonce, Code: fleet.Applied})
			}, true, "", 4},
		} {
			step.do()
			_, r := status(t, f)
			failure := r.Failure
			if r.Refusal != nil {
				failure = r.Refusal.CauseReason
			}
			if since := int(r.Since.Sub(begin).Minutes()); r.Settled != step.settled || failure != step.failure || since != step.since {
				t.Errorf("when %s: settled %v with %q since minute %d, want %v, %q, %d", step.name, r.Settled, failure, since, step.settled, step.failure, step.since)
			}
			if r.Ready() != (failure == "") {
				t.Errorf("when %s: ready is %v", step.name, r.Ready())
			}
		}
	})
}

func TestStatus_WhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(fleet.Config{})
		s := connect(t, f, 1, "a")
		if got, ok := f.Status("c", all); !ok || got.Whole {
			t.Errorf("before the inventory: %+v, %v", got, ok)
		}
		suspended := spec(web, 1, "")
		suspended.Suspended, suspended.Class = true, "ClusterDynamicConfigClass/shared"
		s.Replace([]fleet.Spec{suspended})
		f.Deliver("c", web, fleet.Answer{UID: "u", Generation: 1, Content: &fleet.Content{ID: []byte("A"), SourceVersion: "v7", Data: map[string][]byte{"k": []byte("12345678")}}})
		sent := time.Now()
		frame := take(t, s)
		<-time.After(time.Minute)
		got, r := status(t, f)
		if !got.Whole || got.Unacked != 1 || got.UnackedBytes != 9 || !got.OldestUnacked.Equal(sent) || !got.Applied.IsZero() || got.Total != 1 {
			t.Errorf("under way: %+v", got)
		}
		want := fleet.RenderStatus{ID: web, Class: "ClusterDynamicConfigClass/shared", Suspended: true, Since: sent, Sent: sent, Version: "v7"}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("under way (-want +got):\n%s", diff)
		}
		s.Ack(fleet.Result{ID: web, Nonce: frame.Nonce, Code: fleet.Applied})
		got, r = status(t, f)
		if got.Unacked != 0 || !got.OldestUnacked.IsZero() || !got.Applied.Equal(sent.Add(time.Minute)) || !r.Sent.IsZero() || r.Version != "v7" {
			t.Errorf("applied: %+v, %+v", got, r)
		}
		if none, ok := f.Status("c", func(*fleet.RenderStatus) bool { return false }); !ok || len(none.Renders) != 0 || none.Ready != 1 {
			t.Errorf("without Renders: %+v", none)
		}
	})
}

func TestStatus_OfAClusterThatIsElsewhere(t *testing.T) {
	f := fleet.New(fleet.Config{})
	if _, ok := f.Status("c", all); ok {
		t.Error("there is a status")
	}
	if _, ok := f.RenderStatus("c", web); ok {
		t.Error("there is a status of a Render")
	}
	connect(t, f, 1, "a").Replace(nil)
	if _, ok := f.RenderStatus("c", web); ok {
		t.Error("there is a status of a Render that is not there")
	}
}
