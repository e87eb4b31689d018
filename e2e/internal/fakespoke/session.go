package fakespoke

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// pageSpecs is the number of Renders in a page of the inventory.
const pageSpecs = 200

type stream = grpc.BidiStreamingClient[fleetv1.SessionRequest, fleetv1.SessionResponse]

// session greets, tells the inventory and answers what comes, until the stream is
// over. nil: the hub asked for another session.
func (s *Spoke) session(ctx context.Context, client fleetv1.SyncServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	str, err := client.Session(ctx)
	if err != nil {
		return err
	}
	hello := &fleetv1.Hello{Agent: &fleetv1.Agent{Version: "bench"}, ProtocolVersion: 1}
	if err := str.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	first, err := str.Recv()
	if err != nil {
		return err
	}
	outbox := make(chan *fleetv1.SessionRequest, 256)
	pages := s.open(outbox, cancel)
	open := &answered{spoke: s, names: map[string]bool{}}
	s.cfg.Tally.note(func(c *Counts) { c.Sessions++ })
	defer s.close(open)
	sent := make(chan error, 1)
	go func() {
		sent <- send(ctx, str, pages, outbox, first.GetWelcome().GetHeartbeatInterval().AsDuration())
		cancel()
	}()
	err = s.receive(ctx, str, outbox, open)
	cancel()
	return errors.Join(err, ignoreEnd(<-sent))
}

// open makes the outbox that of the session and answers the inventory's pages.
func (s *Spoke) open(outbox chan *fleetv1.SessionRequest, end context.CancelFunc) []*fleetv1.SessionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox, s.end = outbox, end
	page := &fleetv1.InventoryPage{InventoryId: 1}
	pages := []*fleetv1.InventoryPage{page}
	for _, key := range s.order {
		if len(page.GetRenders()) == pageSpecs {
			page = &fleetv1.InventoryPage{InventoryId: 1}
			pages = append(pages, page)
		}
		page.Renders = append(page.Renders, proto.CloneOf(s.specs[key]))
	}
	page.Last = true
	frames := make([]*fleetv1.SessionRequest, 0, len(pages))
	for _, p := range pages {
		frames = append(frames, &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: p}})
	}
	return frames
}

func (s *Spoke) close(open *answered) {
	s.mu.Lock()
	s.outbox, s.end = nil, nil
	s.mu.Unlock()
	s.cfg.Tally.note(func(c *Counts) {
		c.Sessions--
		c.Answered -= len(open.names)
	})
}

// send is the only sender of a session.
func send(ctx context.Context, str stream, pages []*fleetv1.SessionRequest, outbox <-chan *fleetv1.SessionRequest, every time.Duration) error {
	for _, page := range pages {
		if err := str.Send(page); err != nil {
			return err
		}
	}
	beat := time.NewTicker(max(every, time.Second))
	defer beat.Stop()
	for seq := uint64(1); ; seq++ {
		var frame *fleetv1.SessionRequest
		select {
		case <-ctx.Done():
			return ctx.Err()
		case frame = <-outbox:
		case <-beat.C:
			frame = &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{Seq: seq}}}
		}
		if err := str.Send(frame); err != nil {
			return err
		}
	}
}

// receive takes answers until the stream is over or the hub drains.
func (s *Spoke) receive(ctx context.Context, str stream, outbox chan<- *fleetv1.SessionRequest, open *answered) error {
	for {
		frame, err := str.Recv()
		if err != nil {
			return ignoreEnd(err)
		}
		switch f := frame.GetFrame().(type) {
		case *fleetv1.SessionResponse_Deliver:
			if s.cfg.Delivered != nil {
				s.cfg.Delivered(f.Deliver)
			}
			result := s.apply(f.Deliver)
			// What is applied counts, also where the session ends before it is acknowledged:
			// it is not sent again.
			open.note(f.Deliver.GetRef(), func(c *Counts) {
				c.Deliveries++
				c.Bytes += size(f.Deliver)
			})
			select {
			case outbox <- result:
			case <-ctx.Done():
				return ctx.Err()
			}
		case *fleetv1.SessionResponse_Current:
			open.note(f.Current.GetRef(), func(c *Counts) { c.Currents++ })
		case *fleetv1.SessionResponse_Refusal:
			open.note(f.Refusal.GetRef(), func(c *Counts) { c.Refusals++ })
		case *fleetv1.SessionResponse_Drain:
			return nil
		}
	}
}

// apply keeps the content's ID, as a target would its content.
func (s *Spoke) apply(d *fleetv1.Deliver) *fleetv1.SessionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := name(d.GetRef())
	if spec := s.specs[key]; spec != nil {
		spec.HaveContentId = d.GetContentId()
	}
	if there := s.awaited[key]; there != nil {
		close(there)
		delete(s.awaited, key)
	}
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: &fleetv1.DeliveryResult{
		Nonce: d.GetNonce(), Ref: d.GetRef(), Generation: d.GetGeneration(),
		Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId(),
	}}}
}

// answered are the Renders that one session has an answer for.
type answered struct {
	spoke *Spoke
	names map[string]bool
}

func (a *answered) note(ref *fleetv1.RenderRef, change func(*Counts)) {
	key := name(ref)
	again := a.names[key]
	a.names[key] = true
	a.spoke.cfg.Tally.note(func(c *Counts) {
		change(c)
		if !again {
			c.Answered++
		}
	})
}

func size(d *fleetv1.Deliver) (n int64) {
	for key, value := range d.GetData() {
		n += int64(len(key) + len(value))
	}
	return n
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
