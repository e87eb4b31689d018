package hubtest

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// patience is how long a test waits for what must come, on a busy machine.
const patience = 90 * time.Second

// Session is one session of an agent.
type Session struct {
	// Cluster is what its certificate says, Hello its first frame.
	Cluster string
	Hello   *fleetv1.Hello
	// Over is closed when the stream has ended.
	Over chan struct{}

	stream grpc.BidiStreamingServer[fleetv1.SessionRequest, fleetv1.SessionResponse]
	frames chan *fleetv1.SessionRequest
	end    chan error
	mu     sync.Mutex // held while sending
}

// Accept waits for the next session.
func (h *Hub) Accept(tb testing.TB) *Session {
	tb.Helper()
	select {
	case s := <-h.sessions:
		return s
	case <-time.After(patience):
		tb.Fatal("no session came")
		return nil
	}
}

// serve receives, and sends heartbeats, until the stream or the test ends the
// session.
func (s *Session) serve(beat <-chan time.Time) error {
	defer close(s.Over)
	received := make(chan error, 1)
	go func() { // ends with the stream
		for {
			frame, err := s.stream.Recv()
			if err != nil {
				received <- err
				close(s.frames)
				return
			}
			s.frames <- frame
		}
	}()
	for {
		select {
		case err := <-s.end:
			return err
		case err := <-received:
			return err
		case <-beat:
			s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Heartbeat{Heartbeat: &fleetv1.Heartbeat{}}})
		}
	}
}

// End ends the session with an error; nil ends it as a server that has no more
// to say.
func (s *Session) End(err error) { s.end <- err }

// Send sends a frame.
func (s *Session) Send(frame *fleetv1.SessionResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.stream.Send(frame) // a stream that ended is what the test is about
}

// Next waits for the next frame that is no heartbeat.
func (s *Session) Next(tb testing.TB) *fleetv1.SessionRequest {
	tb.Helper()
	deadline := time.After(patience)
	for {
		select {
		case frame, ok := <-s.frames:
			if !ok {
				tb.Fatal("the session ended")
			}
			if frame.GetHeartbeat() == nil {
				return frame
			}
		case <-deadline:
			tb.Fatal("no frame came")
		}
	}
}

// Heartbeat waits for a heartbeat, with nothing else before it.
func (s *Session) Heartbeat(tb testing.TB) uint64 {
	tb.Helper()
	select {
	case frame := <-s.frames:
		if frame.GetHeartbeat() == nil {
			tb.Fatalf("want a heartbeat, got %T", frame.GetFrame())
		}
		return frame.GetHeartbeat().GetSeq()
	case <-time.After(patience):
		tb.Fatal("no heartbeat came")
		return 0
	}
}

// Inventory reads pages until the last one.
func (s *Session) Inventory(tb testing.TB) []*fleetv1.RenderSpec {
	tb.Helper()
	var all []*fleetv1.RenderSpec
	for {
		frame := s.Next(tb)
		page := frame.GetInventory()
		if page == nil {
			tb.Fatalf("want an inventory page, got %T", frame.GetFrame())
		}
		all = append(all, page.GetRenders()...)
		if page.GetLast() {
			return all
		}
	}
}
