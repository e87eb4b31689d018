package controller

import (
	"testing"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// undone writes content and has somebody change the target after a while.
func undone(e *entry, w *written, lasts time.Duration) {
	e.succeed(w)
	e.mu.Lock()
	e.repairs.at = e.repairs.at.Add(-lasts)
	e.written.until = time.Time{}
	e.mu.Unlock()
	e.have(testRender(), cachedAt("999"), time.Now())
}

func writeOf(contentID string) *written {
	return &written{uid: "uid", generation: 4, contentID: []byte(contentID), resourceVersion: "100"}
}

func TestEntry_AWriterThatFightsIsLeftAlone(t *testing.T) {
	e := &entry{}
	for n := range maxRepairs {
		undone(e, writeOf("id1"), time.Second)
		if e.isFight(writeOf("id1")) {
			t.Fatalf("repair %d was not made", n+1)
		}
	}
	undone(e, writeOf("id1"), time.Second)
	var waits []time.Duration
	for range 3 {
		for range 2 { // a delivery that comes twice counts once
			if !e.isFight(writeOf("id1")) {
				t.Fatal("one repair too many was made")
			}
		}
		if e.askAgain("1000", time.Now()) {
			t.Error("the writer's own change made the agent ask again")
		}
		in := e.wakeIn(time.Now())
		waits = append(waits, in)
		if !e.askAgain("1000", time.Now().Add(in)) {
			t.Error("not asked when it was time")
		}
		if e.isFight(writeOf("id1")) {
			t.Error("the write that was waited for was not made")
		}
		undone(e, writeOf("id1"), time.Second)
	}
	if waits[0] < rejectMin/2-time.Second || waits[2] < 2*rejectMin-time.Second || waits[2] > 4*rejectMin {
		t.Errorf("want waits that double from %s, got %v", rejectMin, waits)
	}
	if e.isFight(writeOf("id2")) {
		t.Error("new content was not written")
	}
}

func TestEntry_WhatLastsIsNoFight(t *testing.T) {
	e := &entry{}
	for range 3 * maxRepairs {
		undone(e, writeOf("id1"), peace)
		if e.isFight(writeOf("id1")) {
			t.Fatal("a repair that had lasted was not made again")
		}
	}
	for n := range 3 * maxRepairs {
		undone(e, writeOf(string(rune('a'+n))), time.Second)
		if e.isFight(writeOf(string(rune('b' + n)))) {
			t.Fatal("a document that changes is no fight")
		}
	}
	if e.isFight(&written{uid: "another", generation: 4}) {
		t.Error("another Render is no fight")
	}
}

func TestEntry_AFailureIsNotTriedTwice(t *testing.T) {
	e := &entry{}
	before := e.have(testRender(), cachedAt("7"), time.Now())
	e.succeed(&written{uid: "uid", generation: 4, contentID: []byte("id1"), resourceVersion: "7"})
	e.fail(&failed{}, "7")
	if got := e.have(testRender(), cachedAt("7"), time.Now()); before != nil || string(got) != "id1" {
		t.Errorf("want what the hub knows already, so that nothing is sent; got %q", got)
	}
}

// failed is any failure.
type failed struct{}

func (*failed) Error() string { return v1alpha1.ReasonApplyFailed }
