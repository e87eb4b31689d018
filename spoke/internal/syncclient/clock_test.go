package syncclient_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

// All replicas are away for an hour, and then there again: the agent asks for them now
// and then, says once that there is no session, and is sent nothing that it has.
func TestClock_AHubThatIsAwayForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hubtest.StartInMemory(t, hubtest.Settings{Lifetime: 24 * time.Hour, RenewAfter: 12 * time.Hour})
		store := hubtest.Serve(t, h)
		store.Set("k", "colour", "red")
		a := start(t, h, func(c *syncclient.Config) {
			c.Backoff, c.DialOptions = syncclient.Backoff{}, []grpc.DialOption{h.DialInMemory()}
		})
		a.Upsert(spec("pg", ""))
		d := get(t, a.deliveries)
		d.reply(&fleetv1.DeliveryResult{
			Nonce: d.GetNonce(), Ref: d.GetRef(), Generation: d.GetGeneration(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId(),
		})
		<-time.After(time.Minute)

		before := h.Dials()
		h.Stop()
		<-time.After(time.Hour)
		// The delays are 1 to 60 s: of 200, an hour is eight standard deviations short.
		asked := h.Dials() - before
		if asked < 60 || asked > 200 {
			t.Errorf("the hub was asked for %d times", asked)
		}
		h.Restart(t)
		<-time.After(time.Minute) // the longest delay
		if got := get(t, a.currents); string(got.GetContentId()) != string(d.GetContentId()) {
			t.Errorf("the hub says %v", got)
		}
		t.Logf("asked for %d times in an hour", asked)
		if n := store.Delivered(); n != 1 {
			t.Errorf("the document was sent %d times", n)
		}
		if n := len(h.Enrolments()); n != 1 {
			t.Errorf("the agent enrolled %d times", n)
		}
		a.stop()
		if got := []bool{<-a.connected, <-a.connected, <-a.connected, <-a.connected}; fmt.Sprint(got) != "[true false true false]" {
			t.Errorf("the receiver was told %v", got)
		}
		if n := len(a.connected); n != 0 {
			t.Errorf("and %d times more", n)
		}
	})
}

func TestClock_HeartbeatsAndTheEndOfASessionWithASilentHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hubtest.StartInMemory(t, hubtest.Settings{Silent: true})
		a := start(t, h, func(c *syncclient.Config) { c.DialOptions = []grpc.DialOption{h.DialInMemory()} })
		silent := h.Accept(t)
		silent.Inventory(t)
		began := time.Now()
		if silent.Heartbeat(t) != 1 || silent.Heartbeat(t) != 2 {
			t.Error("want heartbeats that count")
		}
		<-silent.Over
		if after := time.Since(began); after <= 30*time.Second || after > 40*time.Second {
			t.Errorf("want the end after three heartbeats of 10 s, got %s", after)
		}
		h.Accept(t)
		a.stop()
	})
}
