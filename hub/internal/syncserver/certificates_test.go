package syncserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func TestSession_HoldsNoLongerThanItsCertificate(t *testing.T) {
	s := newSite(t, nil)
	began := time.Now()
	a := s.open(t, "prod", 10*time.Minute) // its age alone would let it live for longer
	if until := a.hello().GetSessionNotAfter().AsTime(); until.Before(began) || until.After(time.Now().Add(10*time.Minute)) {
		t.Errorf("the session holds until %v, after its certificate", until)
	}
}

// prodWith is the cluster at the other end, with a certificate that ends.
type prodWith struct{ notAfter time.Time }

func (p prodWith) Identify(context.Context) (peer.Identity, error) {
	return peer.Identity{Cluster: "prod", NotAfter: p.notAfter}, nil
}

func (p prodWith) Confirm(ctx context.Context, _ peer.Identity) (peer.Identity, error) {
	return p.Identify(ctx)
}

// In time before its certificate ends, a spoke is told to open its next session.
func TestClock_ASessionEndsWithItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var holds time.Time
		var drain *fleetv1.Drain
		var asked time.Duration
		server, _ := hubWith(&mirror{}, prodWith{begin.Add(time.Minute)})
		got := serveOn(t, server, func(w *wire) {
			go w.read(func(frame *fleetv1.SessionResponse) {
				if welcome := frame.GetWelcome(); welcome != nil {
					holds = welcome.GetSessionNotAfter().AsTime()
				}
				if frame.GetDrain() != nil {
					drain, asked = frame.GetDrain(), time.Since(begin)
				}
			})
			w.in <- helloFrame("v1", "")
			go w.every(10*time.Second, beat())
		})
		if after := time.Since(begin); got != (spoketest.Verdict{Code: codes.Aborted, Reason: identity.ReasonSessionAged}) || after != time.Minute {
			t.Errorf("%+v after %v", got, after)
		}
		synctest.Wait() // the reader has ended
		if !holds.Equal(begin.Add(time.Minute)) || drain.GetReason() != fleetv1.Drain_REASON_AGE || asked != 45*time.Second {
			t.Errorf("it was to hold until %v; asked by %v after %v", holds, drain, asked)
		}
	})
}
