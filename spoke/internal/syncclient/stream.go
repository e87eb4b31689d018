package syncclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// sendAll sends the inventory, then whatever comes, and heartbeats.
func (s *session) sendAll(ctx context.Context, specs []*fleetv1.RenderSpec) error {
	for _, page := range pages(s.id, specs) {
		frame := &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: page}}
		if err := s.send(frame); err != nil {
			return s.sendFailed(ctx, err)
		}
	}
	s.turn.take(s.id, func() {})
	close(s.established)
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	for seq := uint64(1); ; {
		frame := s.outbox.next(s.frames)
		if frame == nil {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-s.leaving:
				return s.sendEnd(ctx)
			case <-s.frames.wake:
				continue
			case keys := <-s.keys:
				frame = &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Keys{Keys: keys}}
			case <-ticker.C:
				frame = &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{Seq: seq}}}
				seq++
			}
		}
		if err := s.send(frame); err != nil {
			return s.sendFailed(ctx, err)
		}
	}
}

// sendEnd tells the hub that nothing more comes, and waits for its end of the stream.
func (s *session) sendEnd(ctx context.Context) error {
	if err := s.stream.CloseSend(); err != nil {
		return s.sendFailed(ctx, err)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// send sends one frame, for sendTimeout at most.
func (s *session) send(frame *fleetv1.SessionRequest) error {
	blocked := time.AfterFunc(sendTimeout, func() { s.cancel(errSendBlocked) })
	defer blocked.Stop()
	return s.stream.Send(frame)
}

// sendFailed is why a send failed. On io.EOF the stream has ended, and only the
// goroutine that receives learns why.
func (s *session) sendFailed(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		<-ctx.Done()
	}
	return s.why(ctx, err)
}

// receiveAll takes frames until the stream ends.
func (s *session) receiveAll(ctx context.Context) error {
	for {
		frame, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the hub ended the session")
		}
		if err != nil {
			return s.why(ctx, err)
		}
		s.heard.Store(time.Now().UnixNano())
		s.dispatch(frame)
	}
}

// dispatch hands a frame on. The hub answers once it has the whole inventory: so an
// answer may be the first to say that this session has taken over.
func (s *session) dispatch(frame *fleetv1.SessionResponse) {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionResponse_Deliver:
		s.turn.take(s.id, func() { s.config.Receiver.Deliver(f.Deliver, s.reply) })
	case *fleetv1.SessionResponse_Current:
		s.turn.take(s.id, func() { s.config.Receiver.Current(f.Current) })
	case *fleetv1.SessionResponse_Refusal:
		s.turn.take(s.id, func() { s.config.Receiver.Refuse(f.Refusal) })
	case *fleetv1.SessionResponse_Heartbeat:
	case *fleetv1.SessionResponse_Drain:
		select {
		case s.drain <- f.Drain.GetWindow().AsDuration():
		default:
		}
	default:
		unknownFrames.Inc()
	}
}

// reply answers a delivery of this session.
func (s *session) reply(result *fleetv1.DeliveryResult) { s.outbox.result(s.frames, result) }

// watch ends the session when the hub is silent, and says when the moment has come
// that the hub asked for. A drained session serves on.
func (s *session) watch(ctx context.Context) error {
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	drain := s.drain
	var drained <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if silent := time.Since(time.Unix(0, s.heard.Load())); silent > missedHeartbeats*s.heartbeat {
				return fmt.Errorf("%w (%s)", errHubSilent, silent.Round(time.Millisecond))
			}
		case window := <-drain:
			drain = nil // the first counts: a later one would only push the moment away
			drained = time.After(uniform(0, window))
		case <-drained:
			close(s.drained)
			drained = nil
		}
	}
}
