package syncserver

import (
	"context"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

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
		v.put(spec)
	}
	if len(v.parts) > v.max {
		return false, errTooMany
	}
	if p.GetLast() {
		v.open, v.whole = false, true
	}
	return p.GetLast(), nil
}

func (v *inventory) put(spec *fleetv1.RenderSpec) { v.parts[idOf(spec.GetRef())] = spec }

// handle takes one received frame.
func (c *conn) handle(ctx context.Context, frame *fleetv1.SessionRequest) error {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionRequest_Inventory:
		return c.takePage(ctx, f.Inventory)
	case *fleetv1.SessionRequest_Upsert:
		return c.takeUpsert(f.Upsert)
	case *fleetv1.SessionRequest_Remove:
		c.takeRemove(f.Remove)
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
	whole, err := c.inventory.page(page)
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
	return c.server.cfg.Mirror.Replace(ctx, c.cluster, renders)
}

func (c *conn) takeUpsert(spec *fleetv1.RenderSpec) error {
	switch {
	case c.inventory.open:
		c.inventory.put(spec)
	case !c.inventory.whole:
		return errMalformed
	default:
		c.session.Upsert(specOf(spec))
		c.server.cfg.Mirror.Upsert(c.cluster, renderOf(spec))
	}
	return nil
}

func (c *conn) takeRemove(ref *fleetv1.RenderRef) {
	if c.inventory.open {
		delete(c.inventory.parts, idOf(ref))
		return
	}
	c.session.Remove(idOf(ref))
	c.server.cfg.Mirror.Remove(c.cluster, ref.GetNamespace(), ref.GetName())
}
