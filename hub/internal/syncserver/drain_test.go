package syncserver_test

import (
	"testing"
	"time"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Spokes are asked to move once each, and serve on until they do.
func TestServer_Move(t *testing.T) {
	s := newSite(t, nil)
	spokes := []*spoke{s.open(t, "prod", time.Hour), s.open(t, "dev", time.Hour)}
	for _, a := range spokes {
		a.hello()
	}
	for i, want := range []int{1, 1, 0} { // of two at a time
		n := 2
		if i == 0 {
			n = 1
		}
		if asked := s.server.Move(n, 7*time.Second); asked != want {
			t.Errorf("call %d asked %d, want %d", i, asked, want)
		}
	}
	s.server.Drain(time.Second) // is no news to them
	for _, a := range spokes {
		if drain := a.next().GetDrain(); drain.GetReason() != fleetv1.Drain_REASON_REBALANCE || drain.GetWindow().AsDuration() != 7*time.Second {
			t.Errorf("asked by %v", drain)
		}
		if !a.send(inventory("shop/web@1"), 0) {
			t.Errorf("the session is over: %+v", a.verdict())
		}
		if n := len(a.frames); n != 0 {
			t.Errorf("%d frames more", n)
		}
		_ = a.stream.CloseSend()
		a.verdict()
	}
	if asked := s.server.Move(2, time.Second); asked != 0 {
		t.Errorf("%d sessions that are over were asked", asked)
	}
}
