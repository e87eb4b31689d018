package syncserver

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// maxSpec bounds one Render's spec: what the API allows its fields at four bytes a
// character (2 x 1,024 characters, 4 x 253) is 13 KiB. It bounds the mirror of a
// cluster, together with the number of its Renders.
const maxSpec = 16 << 10

// inventory collects the pages of a whole inventory. Deltas that come in between
// are part of it.
type inventory struct {
	max   int
	id    uint64
	open  bool // pages are still to come
	whole bool // there was a whole one
	parts map[fleet.ID]*fleetv1.RenderSpec
}

// page adds a page; a new inventory ID starts over. It reports whether the
// inventory is whole now.
func (v *inventory) page(p *fleetv1.InventoryPage) (bool, error) {
	if !v.open || p.GetInventoryId() != v.id {
		v.open, v.id, v.parts = true, p.GetInventoryId(), map[fleet.ID]*fleetv1.RenderSpec{}
	}
	for _, spec := range p.GetRenders() {
		if err := v.put(spec); err != nil {
			return false, err
		}
	}
	if p.GetLast() {
		v.open, v.whole = false, true
	}
	return p.GetLast(), nil
}

func (v *inventory) put(spec *fleetv1.RenderSpec) error {
	v.parts[idOf(spec.GetRef())] = spec
	if len(v.parts) > v.max {
		return errTooMany
	}
	return nil
}

// handle takes one received frame, unless the session is over.
func (c *conn) handle(ctx context.Context, frame *fleetv1.SessionRequest) (err error) {
	if keys := frame.GetKeys(); keys != nil {
		c.takeKeys(ctx, keys)
		return nil
	}
	if !c.session.Do(func() { err = c.take(ctx, frame) }) {
		return causeOf(c.session)
	}
	return err
}

func (c *conn) take(ctx context.Context, frame *fleetv1.SessionRequest) error {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionRequest_Inventory:
		return c.takePage(ctx, f.Inventory)
	case *fleetv1.SessionRequest_Upsert:
		return c.takeUpsert(f.Upsert)
	case *fleetv1.SessionRequest_Remove:
		return c.takeRemove(f.Remove)
	case *fleetv1.SessionRequest_Result:
		if !c.session.Ack(resultOf(f.Result)) {
			c.server.ignored.Add(1)
		}
	case *fleetv1.SessionRequest_Heartbeat:
	default:
		c.server.ignored.Add(1)
	}
	return nil
}

// takePage acts on an inventory once it is whole.
func (c *conn) takePage(ctx context.Context, page *fleetv1.InventoryPage) error {
	usable := slices.DeleteFunc(page.GetRenders(), func(spec *fleetv1.RenderSpec) bool { return !c.usable(spec) })
	whole, err := c.inventory.page(&fleetv1.InventoryPage{InventoryId: page.GetInventoryId(), Renders: usable, Last: page.GetLast()})
	if err != nil || !whole {
		return err
	}
	specs := make([]fleet.Spec, 0, len(c.inventory.parts))
	renders := make([]*v1alpha1.DynamicConfigRender, 0, len(c.inventory.parts))
	for _, spec := range c.inventory.parts {
		specs = append(specs, specOf(spec))
		renders = append(renders, renderOf(spec))
	}
	c.inventory.parts = nil
	// The outbox first: an answer for a Render it does not know would be dropped.
	c.session.Replace(specs)
	if !c.server.cfg.Fleet.TakeOver(c.session) {
		return causeOf(c.session)
	}
	return c.server.cfg.Mirror.Replace(ctx, c.cluster, renders)
}

func (c *conn) takeUpsert(spec *fleetv1.RenderSpec) error {
	switch {
	case !c.usable(spec):
		return nil
	case c.inventory.open:
		return c.inventory.put(spec)
	case !c.inventory.whole:
		return errTooEarly
	}
	if c.session.Upsert(specOf(spec)) > c.inventory.max {
		return errTooMany
	}
	c.server.cfg.Mirror.Upsert(c.cluster, renderOf(spec))
	return nil
}

func (c *conn) takeRemove(ref *fleetv1.RenderRef) error {
	switch {
	case c.inventory.open:
		delete(c.inventory.parts, idOf(ref))
		return nil
	case !c.inventory.whole:
		return errTooEarly
	}
	c.session.Remove(idOf(ref))
	c.server.cfg.Mirror.Remove(c.cluster, ref.GetNamespace(), ref.GetName())
	return nil
}

// usable says whether a spec can be an object's of an API server. One that cannot
// is ignored, and counted: it must not cost the cluster's other Renders their
// session.
func (c *conn) usable(spec *fleetv1.RenderSpec) bool {
	ref := spec.GetRef()
	ok := proto.Size(spec) <= maxSpec &&
		len(validation.IsDNS1123Label(ref.GetNamespace())) == 0 && len(validation.IsDNS1123Subdomain(ref.GetName())) == 0
	if !ok {
		c.server.ignored.Add(1)
	}
	return ok
}
