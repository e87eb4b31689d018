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
// frames each session has still to send. Specs in it are never changed, only
// replaced, so that they can be marshalled without the lock.
type outbox struct {
	mu    sync.Mutex // guards what follows, and what is in frames
	specs map[renderKey]*fleetv1.RenderSpec
	// open are the frames of the sessions that are held: two while the next one
	// takes over.
	open map[*frames]struct{}
}

// frames are what one session has still to send.
type frames struct {
	// wake has room for one token; a token means that there may be a frame.
	wake chan struct{}

	dirty   map[renderKey]struct{}
	removed map[renderKey]*fleetv1.RenderRef
	results map[renderKey]*fleetv1.DeliveryResult
}

func newOutbox() *outbox {
	return &outbox{specs: make(map[renderKey]*fleetv1.RenderSpec), open: make(map[*frames]struct{})}
}

// begin starts a session and returns the whole inventory, in order. What changes
// from then on is kept as frames, so nothing falls between the two.
func (o *outbox) begin() (*frames, []*fleetv1.RenderSpec) {
	f := &frames{
		wake:    make(chan struct{}, 1),
		dirty:   make(map[renderKey]struct{}),
		removed: make(map[renderKey]*fleetv1.RenderRef),
		results: make(map[renderKey]*fleetv1.DeliveryResult),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[f] = struct{}{}
	return f, slices.SortedFunc(maps.Values(o.specs), func(a, b *fleetv1.RenderSpec) int {
		return cmp.Or(
			cmp.Compare(a.GetRef().GetNamespace(), b.GetRef().GetNamespace()),
			cmp.Compare(a.GetRef().GetName(), b.GetRef().GetName()),
		)
	})
}

// end stops keeping frames of a session.
func (o *outbox) end(f *frames) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, f)
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
	for f := range o.open {
		f.dirty[key] = struct{}{}
		delete(f.removed, key)
		f.signal()
	}
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
	for f := range o.open {
		delete(f.dirty, key)
		f.removed[key] = known.GetRef()
		f.signal()
	}
}

// result keeps the answer to a delivery of a session. What the target holds now
// is noted in any case: the hub learns it from the result or the next inventory.
func (o *outbox) result(of *frames, result *fleetv1.DeliveryResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(result.GetRef())
	if spec, ok := o.specs[key]; ok && holds(result) && spec.GetRef().GetUid() == result.GetRef().GetUid() {
		held := proto.CloneOf(spec)
		held.HaveContentId = result.GetContentId()
		o.specs[key] = held
		for f := range o.open {
			if f != of { // its inventory said something else
				f.dirty[key] = struct{}{}
				f.signal()
			}
		}
	}
	if _, open := o.open[of]; open {
		of.results[key] = result
		of.signal()
	}
}

// holds says whether a result tells what the target holds.
func holds(result *fleetv1.DeliveryResult) bool {
	return result.GetCode() == fleetv1.DeliveryResult_CODE_APPLIED ||
		result.GetCode() == fleetv1.DeliveryResult_CODE_UNCHANGED
}

// next takes one frame of a session; nil when there is none. Results come first:
// the hub holds a delivery's content until it is answered.
func (o *outbox) next(f *frames) *fleetv1.SessionRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, result := range f.results {
		delete(f.results, key)
		return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: result}}
	}
	for key, ref := range f.removed {
		delete(f.removed, key)
		return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Remove{Remove: ref}}
	}
	for key := range f.dirty {
		delete(f.dirty, key)
		return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: o.specs[key]}}
	}
	return nil
}

// signal leaves a token.
func (f *frames) signal() {
	select {
	case f.wake <- struct{}{}:
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
