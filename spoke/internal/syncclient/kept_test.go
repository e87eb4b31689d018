package syncclient_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1/kept"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

// keptHub is a hub of a version: it says the frames that were kept of it.
type keptHub struct {
	*testing.T
	version string
	// newer has it send fields and frames that this agent does not know.
	newer bool
}

func (h *keptHub) frame(name string) *fleetv1.SessionResponse {
	h.Helper()
	frame := kept.Frame[*fleetv1.SessionResponse](h, h.version, name)
	if h.newer {
		return kept.Newer(frame)
	}
	return frame
}

// says sends a frame in a session.
func (h *keptHub) says(s *hubtest.Session, name string) *fleetv1.SessionResponse {
	h.Helper()
	if h.newer {
		s.Send(kept.Newer(&fleetv1.SessionResponse{})) // of a kind that came later
	}
	frame := h.frame(name)
	s.Send(frame)
	return frame
}

// request is a frame as that version's agent sent it.
func (h *keptHub) request(name string) *fleetv1.SessionRequest {
	h.Helper()
	return kept.Frame[*fleetv1.SessionRequest](h, h.version, name)
}

// same compares what the agent says or tells with what was kept. Later versions may say
// more than older ones.
func same(h *keptHub, got, want proto.Message) {
	h.Helper()
	versions := kept.Versions(h)
	if h.version == versions[len(versions)-1] && !proto.Equal(got, want) {
		h.Errorf("got %v, want %v", got, want)
	}
}

// keptAccount has the keys that were kept.
type keptAccount struct {
	account
	keys *fleetv1.ClusterKeys
}

func (a *keptAccount) Keys(context.Context) (*fleetv1.ClusterKeys, error) { return a.keys, nil }

// A hub of every version, and one that says more than this agent knows, has a whole
// session with it, in which every frame does what it always did.
func TestKept_EveryVersionsHubServesTheAgent(t *testing.T) {
	for _, version := range kept.Versions(t) {
		for name, newer := range map[string]bool{version: false, version + ", with what came later": true} {
			t.Run(name, func(t *testing.T) { playKept(t, &keptHub{T: t, version: version, newer: newer}) })
		}
	}
}

func playKept(t *testing.T, hub *keptHub) {
	t.Helper()
	h := hubtest.Start(t, hubtest.Settings{Welcome: hub.frame("welcome").GetWelcome(), Reject: hubtest.Denied(codes.Unavailable, "Unavailable")})
	hello := hub.request("hello").GetHello()
	a := start(t, h, func(c *syncclient.Config) {
		c.Version, c.Instance = hello.GetAgent().GetVersion(), hello.GetAgent().GetInstance()
		c.Evidence = &keptAccount{keys: hub.request("keys").GetKeys()}
	})
	want := append(hub.request("inventory-first").GetInventory().GetRenders(), hub.request("inventory-last").GetInventory().GetRenders()...)
	for _, spec := range want {
		a.Upsert(proto.CloneOf(spec))
	}
	h.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	s := h.Accept(t)
	same(hub, s.Hello, hello)
	same(hub, &fleetv1.InventoryPage{Renders: s.Inventory(t)}, &fleetv1.InventoryPage{Renders: want})
	same(hub, s.Next(t), hub.request("keys"))

	sent := hub.says(s, "deliver").GetDeliver()
	d := get(t, a.deliveries)
	same(hub, d.Deliver, sent)
	d.reply(hub.request("result-applied").GetResult())
	same(hub, s.Next(t), hub.request("result-applied"))
	current := hub.says(s, "current").GetCurrent()
	same(hub, get(t, a.currents), current)
	refusal := hub.says(s, "refusal").GetRefusal()
	same(hub, get(t, a.refusals), refusal)

	a.Upsert(hub.request("upsert").GetUpsert())
	same(hub, s.Next(t), hub.request("upsert"))
	a.Remove(hub.request("remove").GetRemove())
	same(hub, s.Next(t), hub.request("remove"))
	hub.says(s, "heartbeat")
	hub.says(s, "drain")
	h.Accept(t).Inventory(t) // the next one, before the end of this one
	<-s.Over
}
