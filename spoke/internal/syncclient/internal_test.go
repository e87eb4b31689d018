package syncclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"dynamic-config.rs/fleet/internal/identity"
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
	f, _ := o.begin()
	for i := range 100 {
		o.upsert(specNamed("a", i), false)
		o.result(f, &fleetv1.DeliveryResult{Nonce: uint64(i), Ref: specNamed("a", 0).GetRef()})
	}
	if got := o.next(f).GetResult().GetNonce(); got != 99 {
		t.Errorf("want the latest result, got %d", got)
	}
	if got := len(o.next(f).GetUpsert().GetKey()); got != 99 {
		t.Errorf("want the latest spec, got %d", got)
	}
	if got := o.next(f); got != nil {
		t.Errorf("want nothing more, got %v", got)
	}
	o.upsert(specNamed("a", 1), false)
	o.remove(specNamed("a", 1).GetRef())
	if got := o.next(f).GetRemove().GetName(); got != "a" {
		t.Errorf("want the removal alone, got %q", got)
	}
	o.upsert(specNamed("a", 2), false)
	if got := o.next(f).GetUpsert(); got == nil {
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
	older, _ := o.begin()
	o.upsert(heldSpec("uid", "old"), false)
	o.next(older)
	o.end(older)
	f, _ := o.begin() // with an inventory that says "old"
	late := &fleetv1.DeliveryResult{
		Ref: specNamed("a", 1).GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: []byte("new"),
	}
	o.result(older, late)
	// The controller says the same once more.
	o.upsert(heldSpec("uid", "new"), false)
	frame := o.next(f)
	if got := string(frame.GetUpsert().GetHaveContentId()); got != "new" {
		t.Errorf("want the hub told of the new content, got %v", frame)
	}
	if got := o.next(f); got != nil {
		t.Errorf("want nothing more, got %v", got)
	}
}

// While the next session takes over, both are told what changes, and each gets the
// results of its own deliveries.
func TestOutbox_TwoSessionsAreToldAlike(t *testing.T) {
	o := newOutbox()
	older, _ := o.begin()
	newer, _ := o.begin()
	told := func(f *frames) string {
		var all []string
		for frame := o.next(f); frame != nil; frame = o.next(f) {
			switch {
			case frame.GetResult() != nil:
				all = append(all, fmt.Sprintf("result %d", frame.GetResult().GetNonce()))
			case frame.GetRemove() != nil:
				all = append(all, "remove")
			default:
				all = append(all, "upsert "+string(frame.GetUpsert().GetHaveContentId()))
			}
		}
		return strings.Join(all, ", ")
	}
	for _, step := range []struct {
		does         string
		do           func()
		older, newer string
	}{
		{"a spec changes", func() { o.upsert(heldSpec("uid", "old"), false) }, "upsert old", "upsert old"},
		{"a delivery of the older one is applied", func() {
			o.result(older, &fleetv1.DeliveryResult{
				Nonce: 7, Ref: heldSpec("uid", "").GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: []byte("new"),
			})
		}, "result 7", "upsert new"},
		{"a delivery of the newer one fails", func() {
			o.result(newer, &fleetv1.DeliveryResult{Nonce: 1, Ref: heldSpec("uid", "").GetRef(), Code: fleetv1.DeliveryResult_CODE_FAILED})
		}, "", "result 1"},
		{"the older one ends, and the Render goes", func() { o.end(older); o.remove(heldSpec("uid", "").GetRef()) }, "", "remove"},
	} {
		step.do()
		if got := told(older); got != step.older {
			t.Errorf("when %s the older session is told %q, want %q", step.does, got, step.older)
		}
		if got := told(newer); got != step.newer {
			t.Errorf("when %s the newer session is told %q, want %q", step.does, got, step.newer)
		}
	}
}

func TestOutbox_ARenderMadeAnewDoesNotSwallowTheResult(t *testing.T) {
	o := newOutbox()
	f, _ := o.begin()
	o.upsert(heldSpec("first", ""), false)
	o.next(f)
	// The delivery is answered, then the Render goes and comes back, and only then
	// the sender has its turn.
	o.result(f, &fleetv1.DeliveryResult{Nonce: 7, Ref: heldSpec("first", "").GetRef()})
	o.remove(heldSpec("first", "").GetRef())
	o.upsert(heldSpec("second", ""), false)
	if got := o.next(f); got.GetResult().GetNonce() != 7 {
		t.Errorf("want delivery 7 answered: the hub holds back the next until then, got %v", got)
	}
	if got := o.next(f); got.GetUpsert().GetRef().GetUid() != "second" {
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
		"after a session that lasted up to 15 s":      {failures: 1000, end: ending{established: true, lasted: time.Minute}, high: 15 * time.Second},
		"after the first that did not 1 to 15 s":      {end: ending{established: true, lasted: 59 * time.Second}, low: time.Second, high: 15 * time.Second},
		"after many that did not 1 to 60 s":           {failures: 1000, end: ending{established: true, lasted: time.Second}, low: time.Second, high: time.Minute},
		"after a planned end at once":                 {end: ending{established: true, planned: true, lasted: time.Minute}},
		"a session drained at birth is paced":         {end: ending{established: true, planned: true}, low: time.Second, high: 15 * time.Second},
		"after the first failure 1 to 2 s":            {end: ending{}, low: time.Second, high: 2 * time.Second},
		"a hub that says when is not asked before":    {end: ending{err: &Error{RetryAfter: 10 * time.Second}}, low: 10 * time.Second, high: 20 * time.Second},
		"and is not waited for longer than 120 s":     {end: ending{err: &Error{RetryAfter: time.Hour}}, low: time.Minute, high: 2 * time.Minute},
		"another agent is left alone for 60 to 120 s": {end: ending{established: true, err: &Error{Reason: identity.ReasonSuperseded}}, low: time.Minute, high: 2 * time.Minute},
		"after many failures 1 to 60 s":               {failures: 1000, end: ending{}, low: time.Second, high: time.Minute},
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

// Only a session that lasted ends the count: not that the hub welcomed another.
func TestRetry_AHubThatEndsEverySessionIsAskedEverMoreRarely(t *testing.T) {
	r := retry{backoff: Backoff{}.withDefaults()}
	short := ending{established: true, lasted: time.Second, err: &Error{Reason: identity.ReasonTooManyRenders}}
	longest := func(end ending) (longest time.Duration) {
		for range 1000 {
			again := r
			longest = max(longest, again.after(end))
		}
		r.after(end)
		return longest
	}
	for i, seconds := range []int{15, 15, 15, 16, 32, 60, 60} {
		want := time.Duration(seconds) * time.Second
		if got := longest(short); got > want || got < want*9/10 {
			t.Errorf("after %d sessions that did not last it waits up to %s, want %s", i+1, got, want)
		}
	}
	r.after(ending{established: true, lasted: time.Hour})
	if got := longest(short); got > 15*time.Second {
		t.Errorf("after one that lasted the next is waited for up to %s, want 15 s", got)
	}
}

// states keeps what the receiver is told of the connection.
type states struct {
	Receiver
	told []bool
}

func (s *states) Connected(c bool) { s.told = append(s.told, c) }

func TestTurn_WhatAnOlderSessionSaysLateIsNotHeard(t *testing.T) {
	s := &states{}
	tr := turn{receiver: s}
	var heard []string
	hear := func(session uint64, what string) { tr.take(session, func() { heard = append(heard, what) }) }
	tr.begin()
	hear(1, "first")
	tr.begin()
	hear(1, "first still")
	hear(2, "second") // it is answered: the hub has its inventory
	hear(1, "late")
	tr.end()
	hear(2, "second still")
	tr.end()
	if got := strings.Join(heard, ", "); got != "first, first still, second, second still" {
		t.Errorf("heard %s", got)
	}
	if got := fmt.Sprint(s.told); got != "[true false]" {
		t.Errorf("told of the connection %s", got)
	}
}
