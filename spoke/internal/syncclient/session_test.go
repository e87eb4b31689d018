package syncclient_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
)

func TestRun_SendsTheWholeInventoryInPagesAndThenDeltas(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	h.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.Unavailable, "Unavailable") })
	a := start(t, h)
	for i := range 450 {
		a.Upsert(spec(fmt.Sprintf("r%03d", i), ""))
	}
	a.Remove(spec("r007", "").GetRef())
	h.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	s := h.Accept(t)
	var sizes []int
	for last := false; !last; {
		page := s.Next(t).GetInventory()
		sizes = append(sizes, len(page.GetRenders()))
		last = page.GetLast()
	}
	if fmt.Sprint(sizes) != "[200 200 49]" {
		t.Errorf("want pages of [200 200 49], got %v", sizes)
	}

	a.Upsert(spec("new", ""))
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "new" {
		t.Errorf("want the new spec, got %v", got)
	}
	a.Upsert(spec("new", "")) // equal: no frame
	a.Ask(spec("new", ""))    // equal, and asked for
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "new" {
		t.Errorf("want the spec again, got %v", got)
	}
	a.Remove(&fleetv1.RenderRef{Namespace: "team", Name: "new"})
	if got := s.Next(t).GetRemove(); got.GetUid() != "uid-new" {
		t.Errorf("want the removal with its UID, got %v", got)
	}
}

func TestRun_HandsOnAnswersAndSendsResults(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	a.Upsert(spec("pg", ""))
	s := h.Accept(t)
	s.Inventory(t)
	s.Send(&fleetv1.SessionResponse{}) // a frame of a newer hub
	s.Send(deliver(7, spec("pg", ""), "id1"))
	d := get(t, a.deliveries)
	d.reply(&fleetv1.DeliveryResult{
		Nonce: d.GetNonce(), Ref: d.GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId(),
	})
	if got := drainUpserts(t, s).GetResult(); got.GetNonce() != 7 {
		t.Errorf("want the result of 7, got %v", got)
	}
	s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Refusal{Refusal: &fleetv1.Refusal{ReadyReason: "ClassNotFound"}}})
	if got := get(t, a.refusals); got.GetReadyReason() != "ClassNotFound" {
		t.Errorf("want the refusal, got %v", got)
	}
	s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Current{Current: &fleetv1.Current{ContentId: []byte("id1")}}})
	if got := get(t, a.currents); string(got.GetContentId()) != "id1" {
		t.Errorf("want the news, got %v", got)
	}
}

// drainUpserts returns the next frame that is no upsert: a spec that was set while
// the session opened may come twice.
func drainUpserts(t *testing.T, s *hubtest.Session) *fleetv1.SessionRequest {
	t.Helper()
	for {
		if frame := s.Next(t); frame.GetUpsert() == nil {
			return frame
		}
	}
}

func TestRun_ReconnectsAndSaysWhatTheTargetsHold(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	a.Upsert(spec("pg", ""))
	s := h.Accept(t)
	s.Inventory(t)
	s.Send(deliver(1, spec("pg", ""), "id1"))
	d := get(t, a.deliveries)

	s.End(nil)
	again := h.Accept(t)
	again.Inventory(t)
	// The answer to a delivery of the session before is not for this one.
	d.reply(&fleetv1.DeliveryResult{
		Nonce: 1, Ref: d.GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: []byte("id1"),
	})
	a.Upsert(spec("other", ""))
	if frame := drainUntil(t, again, "other"); frame.GetResult() != nil {
		t.Errorf("a result of another session was sent: %v", frame)
	}
	again.End(nil)
	held := map[string]string{}
	for _, spec := range h.Accept(t).Inventory(t) {
		held[spec.GetRef().GetName()] = string(spec.GetHaveContentId())
	}
	if held["pg"] != "id1" {
		t.Errorf("want the inventory to say what was applied, got %v", held)
	}
}

// drainUntil returns the first frame that is a result or the upsert of a name.
func drainUntil(t *testing.T, s *hubtest.Session, name string) *fleetv1.SessionRequest {
	t.Helper()
	for {
		frame := s.Next(t)
		if frame.GetResult() != nil || frame.GetUpsert().GetRef().GetName() == name {
			return frame
		}
	}
}

func TestRun_ComesBackAfterTheHubCrashed(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	a.Upsert(spec("pg", "id1"))
	h.Accept(t).Inventory(t)
	h.Restart(t)
	specs := h.Accept(t).Inventory(t)
	if len(specs) != 1 || string(specs[0].GetHaveContentId()) != "id1" {
		t.Errorf("want the whole inventory again, got %v", specs)
	}
	if got := []bool{get(t, a.connected), get(t, a.connected), get(t, a.connected)}; fmt.Sprint(got) != "[true false true]" {
		t.Errorf("want the receiver told, got %v", got)
	}
}

func drained(window time.Duration) *fleetv1.SessionResponse {
	return &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Drain{Drain: &fleetv1.Drain{Window: durationpb.New(window)}}}
}

// As long as the next session does not open, the drained one serves; then the next one
// takes over, and nobody is told that the hub was lost.
func TestRun_ADrainedSessionServesUntilItIsReplaced(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	s := h.Accept(t)
	s.Inventory(t)
	h.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.Unavailable, "Draining") })
	s.Send(drained(time.Millisecond))
	s.Send(drained(time.Hour)) // a second window does not put it off
	gomega.NewWithT(t).Eventually(h.Rejections, patience).Should(gomega.BeNumerically(">", 2))
	a.Upsert(spec("pg", ""))
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "pg" {
		t.Errorf("want deltas in the drained session, got %v", got)
	}
	s.Send(deliver(7, spec("pg", ""), "id1"))
	d := get(t, a.deliveries)

	h.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	again := h.Accept(t)
	if specs := again.Inventory(t); len(specs) != 1 {
		t.Errorf("want the whole inventory, got %v", specs)
	}
	<-s.Over
	d.reply(&fleetv1.DeliveryResult{Nonce: 7, Ref: d.GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId()})
	if got := again.Next(t).GetUpsert(); string(got.GetHaveContentId()) != "id1" {
		t.Errorf("want what the older session left told to the new one, got %v", got)
	}
	again.End(nil)
	h.Accept(t)
	if got := []bool{get(t, a.connected), get(t, a.connected), get(t, a.connected)}; fmt.Sprint(got) != "[true false true]" {
		t.Errorf("want no word of a session that was replaced, got %v", got)
	}
}

func TestRun_ManySessionsLeaveNothing(t *testing.T) {
	const sessions = 60
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	go func() { // until the test ends
		for {
			select {
			case <-a.connected:
			case <-t.Context().Done():
				return
			}
		}
	}()
	s := h.Accept(t)
	s.Inventory(t)
	before := runtime.NumGoroutine()
	for i := range sessions {
		if i%2 == 0 {
			s.Send(drained(0))
		} else {
			s.End(nil)
		}
		next := h.Accept(t)
		next.Inventory(t)
		<-s.Over
		s = next
	}
	// A session has half a dozen, which may not all have run when they were counted before.
	gomega.NewWithT(t).Eventually(runtime.NumGoroutine, patience).Should(gomega.BeNumerically("<=", before+sessions/2))
}

func TestRun_ARenewalReplacesTheSessionBeforeItEndsIt(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{RenewAfter: 100 * time.Millisecond})
	a := start(t, h)
	first := h.Accept(t)
	first.Inventory(t)
	h.Configure(func(s *hubtest.Settings) { s.RenewAfter = time.Hour })
	h.Accept(t).Inventory(t)
	<-first.Over
	a.stop()
	if got := []bool{get(t, a.connected), get(t, a.connected)}; fmt.Sprint(got) != "[true false]" {
		t.Errorf("want one connection from the first session to the end, got %v", got)
	}
}
