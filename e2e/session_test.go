package e2e_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// attackerStream is a session that says what it likes. It beats by itself, as an agent
// does: the hub would end it while the test looks elsewhere.
type attackerStream struct {
	fleetv1.SyncService_SessionClient
	cancel context.CancelFunc
	mu     sync.Mutex // held while sending
}

// openSession opens a session with an empty inventory, and says why where it cannot.
func openSession(t *testing.T, certificate *tls.Certificate) (*attackerStream, error) {
	t.Helper()
	return openSessionOn(t, (&recorder{}).dial(t, certificate))
}

func openSessionOn(t *testing.T, conn *grpc.ClientConn) (*attackerStream, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := fleetv1.NewSyncServiceClient(conn).Session(ctx)
	if err != nil {
		return nil, err
	}
	// What is sent on a stream that is refused is lost; Recv says why it was.
	for _, frame := range []*fleetv1.SessionRequest{
		{Frame: &fleetv1.SessionRequest_Hello{Hello: &fleetv1.Hello{ProtocolVersion: 1, Agent: &fleetv1.Agent{Version: "env=prod", Instance: "env=prod"}}}},
		{Frame: &fleetv1.SessionRequest_Inventory{Inventory: &fleetv1.InventoryPage{InventoryId: 1, Last: true}}},
	} {
		if err := stream.Send(frame); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	frame, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if frame.GetWelcome() == nil {
		t.Fatalf("the first frame is %v", frame)
	}
	s := &attackerStream{SyncService_SessionClient: stream, cancel: cancel}
	go s.beat(frame.GetWelcome().GetHeartbeatInterval().AsDuration())
	return s, nil
}

// Send sends a frame, one at a time.
func (s *attackerStream) Send(frame *fleetv1.SessionRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.SyncService_SessionClient.Send(frame)
}

// beat says at an interval that the session lives, as long as it does.
func (s *attackerStream) beat(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.Context().Done():
			return
		case <-ticker.C:
		}
		if err := s.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{}}}); err != nil {
			return
		}
	}
}

// ask asks for a document and returns the answer.
func (s *attackerStream) ask(t *testing.T, spec *fleetv1.RenderSpec) *fleetv1.SessionResponse {
	t.Helper()
	if err := s.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: spec}}); err != nil {
		t.Fatal(err)
	}
	return s.answer(t, spec.GetRef().GetName())
}

// served asks for a document and returns it. Of a class or a cluster that was made a
// moment ago the hub may not know yet; when it does, it answers anew.
func (s *attackerStream) served(t *testing.T, spec *fleetv1.RenderSpec) *fleetv1.Deliver {
	t.Helper()
	for frame := s.ask(t, spec); ; frame = s.answer(t, spec.GetRef().GetName()) {
		if d := frame.GetDeliver(); d != nil {
			return d
		}
		t.Logf("refused for now: %s", frame.GetRefusal().GetReadyReason())
	}
}

// refused asks for a document and waits until it is refused for a reason. Whatever the
// hub does not know yet, it delivers nothing meanwhile.
func (s *attackerStream) refused(t *testing.T, spec *fleetv1.RenderSpec, reason string) {
	t.Helper()
	for frame := s.ask(t, spec); ; frame = s.answer(t, spec.GetRef().GetName()) {
		refusal := frame.GetRefusal()
		if refusal == nil {
			t.Fatalf("delivered, want %s", reason)
		}
		if refusal.GetReadyReason() == reason || refusal.GetCauseReason() == reason {
			return
		}
		t.Logf("refused for now: %s %s", refusal.GetReadyReason(), refusal.GetCauseReason())
	}
}

// answer is the next one to a Render of a name; a delivery is acknowledged.
func (s *attackerStream) answer(t *testing.T, name string) *fleetv1.SessionResponse {
	t.Helper()
	late := time.AfterFunc(patience, s.cancel)
	defer late.Stop()
	for {
		frame, err := s.Recv()
		if err != nil {
			t.Fatalf("no further answer to %s: %v", name, err)
		}
		d := frame.GetDeliver()
		if d.GetRef().GetName() != name && frame.GetRefusal().GetRef().GetName() != name {
			continue
		}
		if d != nil {
			result := &fleetv1.DeliveryResult{Nonce: d.GetNonce(), Ref: d.GetRef(), Generation: d.GetGeneration(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId()}
			if err := s.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: result}}); err != nil {
				t.Fatal(err)
			}
		}
		return frame
	}
}

// end waits until the hub ends the session, and returns why.
func (s *attackerStream) end() error {
	late := time.AfterFunc(patience, s.cancel)
	defer late.Stop()
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}
