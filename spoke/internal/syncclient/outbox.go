package syncclient

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// renderKey names a Render of the cluster.
type renderKey struct{ namespace, name string }

// keyOf is the key of a reference.
func keyOf(ref *fleetv1.RenderRef) renderKey {
	return renderKey{ref.GetNamespace(), ref.GetName()}
}

// outbox holds what the hub should know: every Render's latest spec, and which
// frames a session has still to send. Specs in it are never changed, only
// replaced, so that they can be marshalled without the lock.
type outbox struct {
	// wake has room for one token; a token means that there may be a frame.
	wake chan struct{}

	mu sync.Mutex // guards what follows
	// session that frames are kept for; 0 for none: then only specs are kept.
	session uint64
	specs   map[renderKey]*fleetv1.RenderSpec
	dirty   map[renderKey]struct{}
	removed map[renderKey]*fleetv1.RenderRef
	results map[renderKey]*fleetv1.DeliveryResult
}

func newOutbox() *outbox {
	o := &outbox{wake: make(chan struct{}, 1), specs: make(map[renderKey]*fleetv1.RenderSpec)}
	o.clear()
	return o
}

// clear forgets frames. Call it with the lock held.
func (o *outbox) clear() {
	o.dirty = make(map[renderKey]struct{})
	o.removed = make(map[renderKey]*fleetv1.RenderRef)
	o.results = make(map[renderKey]*fleetv1.DeliveryResult)
}

// begin starts a session and returns the whole inventory, in order. What changes
// from then on is kept as frames, so nothing falls between the two.
func (o *outbox) begin(session uint64) []*fleetv1.RenderSpec {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = session
	o.clear()
	return slices.SortedFunc(maps.Values(o.specs), func(a, b *fleetv1.RenderSpec) int {
		return cmp.Or(
			cmp.Compare(a.GetRef().GetNamespace(), b.GetRef().GetNamespace()),
			cmp.Compare(a.GetRef().GetName(), b.GetRef().GetName()),
		)
	})
}

// end stops keeping frames.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = 0
	o.clear()
}

// upsert keeps a spec. It makes a frame when the spec differs from what the hub
// knows, or always when again is set.
func (o *outbox) upsert(spec *fleetv1.RenderSpec, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(spec.GetRef())
	if !again && proto.Equal(o.specs[key], spec) {
		return
	}
	o.specs[key] = spec
	if o.session == 0 {
		return
	}
	o.dirty[key] = struct{}{}
	delete(o.removed, key)
	o.signal()
}

// remove forgets a Render. A result stays: where the Render comes back at once, it is
// all that tells the hub of the end of its delivery.
func (o *outbox) remove(ref *fleetv1.RenderRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(ref)
	known, ok := o.specs[key]
	if !ok {
		return
	}
	delete(o.specs, key)
	delete(o.dirty, key)
	if o.session == 0 {
		return
	}
	o.removed[key] = known.GetRef()
	o.signal()
}

// result keeps the answer to a delivery of a session. What the target holds now
// is noted in any case: the hub learns it from the result or the next inventory.
func (o *outbox) result(session uint64, result *fleetv1.DeliveryResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(result.GetRef())
	if spec, ok := o.specs[key]; ok && holds(result) && spec.GetRef().GetUid() == result.GetRef().GetUid() {
		held := proto.CloneOf(spec)
		held.HaveContentId = result.GetContentId()
		o.specs[key] = held
		if o.session != session && o.session != 0 {
			// The inventory of this session said something else.
			o.dirty[key] = struct{}{}
			o.signal()
		}
	}
	if o.session != session {
		return
	}
	o.results[key] = result
	o.signal()
}

// holds says whether a result tells what the target holds.
func holds(result *fleetv1.DeliveryResult) bool {
	return result.GetCode() == fleetv1.DeliveryResult_CODE_APPLIED ||
		result.GetCode() == fleetv1.DeliveryResult_CODE_UNCHANGED
}

// next takes one frame of a session; nil when there is none. Results come first:
// the hub holds a delivery's content until it is answered.
func (o *outbox) next() *fleetv1.SessionRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, result := range o.results {
		delete(o.results, key)
		return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: result}}
	}
	for key, ref := range o.removed {
		delete(o.removed, key)
		return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Remove{Remove: ref}}
	}
	for key := range o.dirty {
		delete(o.dirty, key)
		return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: o.specs[key]}}
	}
	return nil
}

// signal leaves a token. Call it with the lock held.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// The bounds of an inventory page: 200 ordinary specs are about 60 KiB, and with
// the longest keys a page still stays below 256 KiB.
const (
	maxPageSpecs = 200
	maxPageBytes = 240 << 10
)

// pages splits an inventory. There is always a page, and only the final one is
// marked last.
func pages(id uint64, specs []*fleetv1.RenderSpec) []*fleetv1.InventoryPage {
	page := &fleetv1.InventoryPage{InventoryId: id}
	all := []*fleetv1.InventoryPage{page}
	size := 0
	for _, spec := range specs {
		n := proto.Size(spec)
		if len(page.GetRenders()) == maxPageSpecs || (size+n > maxPageBytes && len(page.GetRenders()) > 0) {
			page = &fleetv1.InventoryPage{InventoryId: id}
			all = append(all, page)
			size = 0
		}
		page.Renders = append(page.GetRenders(), spec)
		size += n
	}
	page.Last = true
	return all
}
