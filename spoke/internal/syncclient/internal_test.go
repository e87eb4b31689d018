package syncclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func specNamed(name string, key int) *fleetv1.RenderSpec {
	return &fleetv1.RenderSpec{
		Ref: &fleetv1.RenderRef{Namespace: "team", Name: name, Uid: "uid"}, Key: strings.Repeat("k", key),
	}
}

func TestPages_AreBoundedAndOnlyTheFinalOneIsLast(t *testing.T) {
	cases := map[string]struct {
		specs, keyBytes int
		want            int
	}{
		"an empty inventory is one page":        {specs: 0, want: 1},
		"one full page":                         {specs: 200, keyBytes: 10, want: 1},
		"one more":                              {specs: 201, keyBytes: 10, want: 2},
		"long keys make smaller pages":          {specs: 600, keyBytes: 2000, want: 5},
		"a spec above the bound goes by itself": {specs: 2, keyBytes: 300 << 10, want: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var specs []*fleetv1.RenderSpec
			for i := range tc.specs {
				specs = append(specs, specNamed(fmt.Sprint(i), tc.keyBytes))
			}
			all := pages(9, specs)
			sent := 0
			for i, page := range all {
				sent += len(page.GetRenders())
				if page.GetLast() != (i == len(all)-1) || page.GetInventoryId() != 9 {
					t.Errorf("page %d: last=%v id=%d", i, page.GetLast(), page.GetInventoryId())
				}
				if len(page.GetRenders()) > 1 && proto.Size(page) > 256<<10 {
					t.Errorf("page %d has %d bytes", i, proto.Size(page))
				}
			}
			if len(all) != tc.want || sent != tc.specs {
				t.Errorf("want %d pages of %d specs, got %d of %d", tc.want, tc.specs, len(all), sent)
			}
		})
	}
}

func TestOutbox_KeepsTheLatestOnly(t *testing.T) {
	o := newOutbox()
	o.begin(1)
	for i := range 100 {
		o.upsert(specNamed("a", i), false)
		o.result(1, &fleetv1.DeliveryResult{Nonce: uint64(i), Ref: specNamed("a", 0).GetRef()})
	}
	if got := o.next().GetResult().GetNonce(); got != 99 {
		t.Errorf("want the latest result, got %d", got)
	}
	if got := len(o.next().GetUpsert().GetKey()); got != 99 {
		t.Errorf("want the latest spec, got %d", got)
	}
	if got := o.next(); got != nil {
		t.Errorf("want nothing more, got %v", got)
	}
	o.upsert(specNamed("a", 1), false)
	o.remove(specNamed("a", 1).GetRef())
	if got := o.next().GetRemove().GetName(); got != "a" {
		t.Errorf("want the removal alone, got %q", got)
	}
	o.upsert(specNamed("a", 2), false)
	if got := o.next().GetUpsert(); got == nil {
		t.Error("want the Render back")
	}
}

// heldSpec is a spec whose target holds a content.
func heldSpec(uid, held string) *fleetv1.RenderSpec {
	spec := specNamed("a", 1)
	spec.Ref.Uid, spec.HaveContentId = uid, []byte(held)
	return spec
}

func TestOutbox_WhatALateResultLeftIsToldToTheNextSession(t *testing.T) {
	o := newOutbox()
	o.begin(1)
	o.upsert(heldSpec("uid", "old"), false)
	o.next()
	o.end()
	o.begin(2) // with an inventory that says "old"
	late := &fleetv1.DeliveryResult{
		Ref: specNamed("a", 1).GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: []byte("new"),
	}
	o.result(1, late)
	// The controller says the same once more.
	o.upsert(heldSpec("uid", "new"), false)
	frame := o.next()
	if got := string(frame.GetUpsert().GetHaveContentId()); got != "new" {
		t.Errorf("want the hub told of the new content, got %v", frame)
	}
	if got := o.next(); got != nil {
		t.Errorf("want nothing more, got %v", got)
	}
}

func TestOutbox_ARenderMadeAnewDoesNotSwallowTheResult(t *testing.T) {
	o := newOutbox()
	o.begin(1)
	o.upsert(heldSpec("first", ""), false)
	o.next()
	// The delivery is answered, then the Render goes and comes back, and only then
	// the sender has its turn.
	o.result(1, &fleetv1.DeliveryResult{Nonce: 7, Ref: heldSpec("first", "").GetRef()})
	o.remove(heldSpec("first", "").GetRef())
	o.upsert(heldSpec("second", ""), false)
	if got := o.next(); got.GetResult().GetNonce() != 7 {
		t.Errorf("want delivery 7 answered: the hub holds back the next until then, got %v", got)
	}
	if got := o.next(); got.GetUpsert().GetRef().GetUid() != "second" {
		t.Errorf("want the new Render, got %v", got)
	}
}

func TestRetry_After(t *testing.T) {
	b := Backoff{}.withDefaults()
	cases := map[string]struct {
		failures  int
		end       ending
		low, high time.Duration
	}{
		"after a session up to 15 s":          {end: ending{established: true}, high: 15 * time.Second},
		"after a planned end at once":         {end: ending{established: true, planned: true, lasted: time.Minute}},
		"a session drained at birth is paced": {end: ending{established: true, planned: true}, high: 15 * time.Second},
		"after the first failure 1 to 2 s":    {end: ending{}, low: time.Second, high: 2 * time.Second},
		"after many failures 1 to 60 s":       {failures: 1000, end: ending{}, low: time.Second, high: time.Minute},
		"as long as the hub asks":             {end: ending{err: &Error{RetryAfter: 5 * time.Second}}, low: 5 * time.Second, high: 5 * time.Second},
		"but not longer than 60 s":            {end: ending{err: &Error{RetryAfter: time.Hour}}, low: time.Minute, high: time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range 1000 {
				r := retry{backoff: b, failures: tc.failures}
				if d := r.after(tc.end); d < tc.low || d > tc.high {
					t.Fatalf("want %s to %s, got %s", tc.low, tc.high, d)
				}
			}
		})
	}
}
