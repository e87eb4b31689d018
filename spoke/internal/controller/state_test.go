package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

var testKey = types.NamespacedName{Namespace: "team", Name: "pg"}

func newEntries() *entries { return &entries{all: make(map[types.NamespacedName]*entry)} }

func TestEntries_TheLatestAnswerWinsAndTheOtherIsSuperseded(t *testing.T) {
	var results []*fleetv1.DeliveryResult
	deliver := func(nonce uint64) *answer {
		return &answer{
			ref: testRef(), deliver: &fleetv1.Deliver{Nonce: nonce},
			reply: func(r *fleetv1.DeliveryResult) { results = append(results, r) },
		}
	}
	e := newEntries()
	e.put(testKey, deliver(1))
	e.put(testKey, deliver(2))
	if len(results) != 1 || results[0].GetNonce() != 1 || results[0].GetCode() != fleetv1.DeliveryResult_CODE_SUPERSEDED {
		t.Fatalf("want delivery 1 superseded, got %v", results)
	}
	if a := e.take(testKey); a.deliver.GetNonce() != 2 || e.take(testKey) != nil {
		t.Error("want the latest, once")
	}
	e.put(testKey, deliver(3))
	e.dropAnswers()
	if e.take(testKey) != nil || len(results) != 1 {
		t.Error("an answer of a session that is over must be forgotten in silence")
	}
	e.put(testKey, deliver(4))
	e.drop(testKey)
	if len(results) != 2 || len(e.all) != 0 {
		t.Error("want the answer for a Render that is gone superseded")
	}
}

// cachedAt is a target that holds no content of ours, at a resource version.
func cachedAt(resourceVersion string) *metav1.PartialObjectMetadata {
	target := apply.Metadata("Secret")
	target.ResourceVersion = resourceVersion
	return target
}

func TestEntry_WhatWasWrittenIsBelievedUntilTheCacheShowsIt(t *testing.T) {
	begin := time.Unix(1000, 0)
	cases := map[string]struct {
		change func(*v1alpha1.DynamicConfigRender)
		target *metav1.PartialObjectMetadata
		now    time.Time
		want   string
	}{
		"the cache has no target yet":    {now: begin, want: "id1"},
		"the cache has an older target":  {target: cachedAt("99"), now: begin, want: "id1"},
		"the cache has what was written": {target: cachedAt("100"), now: begin.Add(time.Hour), want: "id1"},
		"the cache has a later one":      {target: cachedAt("101"), now: begin},
		"the cache never shows it":       {now: begin.Add(time.Hour)},
		"the spec moved on":              {change: func(r *v1alpha1.DynamicConfigRender) { r.Generation++ }, now: begin},
		"the Render is another":          {change: func(r *v1alpha1.DynamicConfigRender) { r.UID = "new" }, now: begin},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := &entry{}
			e.succeed(&written{
				uid: "uid", generation: 4, contentID: []byte("id1"), resourceVersion: "100", until: begin.Add(believeWritten),
			})
			render := testRender()
			if tc.change != nil {
				tc.change(render)
			}
			if got := string(e.have(render, tc.target, tc.now)); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestEntry_AsksAgainAfterAFailure(t *testing.T) {
	e := &entry{}
	if e.askAgain("7", time.Now()) {
		t.Error("without a failure there is nothing to ask")
	}
	e.fail(&apply.Error{Reason: v1alpha1.ReasonQuotaExceeded}, "7")
	if e.askAgain("7", time.Now().Add(-time.Second)) {
		t.Error("asked before its time")
	}
	if in := e.wakeIn(time.Now()); in <= 0 || in > retryMin {
		t.Errorf("want a look within %s, got %s", retryMin, in)
	}
	if !e.askAgain("7", time.Now().Add(retryMin)) || e.askAgain("7", time.Now().Add(time.Hour)) {
		t.Error("want it asked once")
	}
	if !e.askAgain("8", time.Now()) {
		t.Error("a target that moved is a reason to ask at once")
	}
	for range 50 {
		e.fail(&apply.Error{Reason: v1alpha1.ReasonTargetNotOwned}, "8")
	}
	if in := e.wakeIn(time.Now()); in < rejectMax/2-time.Second || in > rejectMax {
		t.Errorf("want the delay bounded by %s, got %s", rejectMax, in)
	}
	e.succeed(nil)
	if e.askAgain("9", time.Now()) || e.wakeIn(time.Now()) != 0 {
		t.Error("want the failure forgotten")
	}
}

func TestEntry_AWriteThatTheCacheNeverShowedWakesNobodyAfterAFailure(t *testing.T) {
	now := time.Now()
	e := &entry{}
	e.succeed(&written{uid: "uid", generation: 4, contentID: []byte("id1"), resourceVersion: "100", until: now.Add(-time.Second)})
	e.fail(&apply.Error{Reason: v1alpha1.ReasonTargetNotOwned}, "100")
	for range 2 { // before and after the hub is asked again
		e.have(testRender(), cachedAt("100"), now)
		if in := e.wakeIn(now); in != 0 && in < rejectMin/2-time.Second {
			t.Errorf("want the Render left alone until the retry, got a look in %s", in)
		}
		e.askAgain("101", now)
	}
}
