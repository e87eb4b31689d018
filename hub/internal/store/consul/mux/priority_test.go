package mux

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// noted is a gate that notes how urgent what waits at it is. While it is shut nobody
// enters.
type noted struct {
	mu                sync.Mutex
	entered, admitted []store.Priority
	waiting           int
	opened            chan struct{} // nil while it is open
}

func (g *noted) Admit(ctx context.Context) (store.Done, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted = append(g.admitted, store.PriorityOf(ctx))
	return func(error) {}, nil
}

func (g *noted) Enter(ctx context.Context) (store.Done, error) {
	g.mu.Lock()
	g.entered = append(g.entered, store.PriorityOf(ctx))
	opened := g.opened
	if opened == nil {
		g.mu.Unlock()
		return func(error) {}, nil
	}
	g.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}()
	select {
	case <-opened:
		return func(error) {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// takeEntered answers who entered or tried to since the last call.
func (g *noted) takeEntered() []store.Priority {
	g.mu.Lock()
	defer g.mu.Unlock()
	entered := g.entered
	g.entered = nil
	return entered
}

// open lets in who waits and who comes.
func (g *noted) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened = nil
}

func TestMux_EachRequestIsAsUrgentAsWhatItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFake(), &noted{}
		m := New(f, gate)
		f.put("a", "one")
		for _, p := range []store.Priority{store.First, store.Periodic, store.Prompt, store.Periodic} {
			got := m.Fetch(store.WithPriority(t.Context(), p), "a")
			if entered := gate.takeEntered(); got.Err != nil || !slices.Equal(entered, []store.Priority{p}) {
				t.Errorf("a fetch of priority %d: requests of %v, %v", p, entered, got.Err)
			}
		}
		watched := make(chan Reading)
		go func() { watched <- m.Watch(store.WithPriority(t.Context(), store.First), "a", "11") }()
		pass(recheck + time.Minute)
		rereads := gate.takeEntered()
		if periodic := slices.Repeat([]store.Priority{store.Periodic}, len(rereads)); len(rereads) == 0 || !slices.Equal(rereads, periodic) {
			t.Errorf("what did not move is read with %v, want all periodic", rereads)
		}
		f.put("a", "two")
		if got := <-watched; got.Err != nil || got.version() != "12" {
			t.Errorf("the watch answers %+v", got)
		}
		if diff := cmp.Diff([]store.Priority{store.Prompt}, gate.takeEntered()); diff != "" {
			t.Errorf("what moved is read (-want +got):\n%s", diff)
		}
		m.Close()
		if len(gate.admitted) == 0 || slices.ContainsFunc(gate.admitted, func(p store.Priority) bool { return p != store.Periodic }) {
			t.Errorf("queries that block are of priorities %v, want all periodic", gate.admitted)
		}
	})
}

// A key that comes while reads wait for the gate has one of them wait anew, and no more
// than it needs.
func TestMux_AReadThatWaitsIsAsUrgentAsWhatCameMeanwhile(t *testing.T) {
	cases := map[string]struct {
		periodic, urgent int
		rejoins          int // of reads that wait
		reads            int // that wait in the end
	}{
		"a key while one read waits":                   {1, 1, 1, 1},
		"a key while as many wait as there may be":     {500, 1, 1, maxReads},
		"a batch while one read waits":                 {1, batchKeys, 1, 2},
		"a batch and a key while two reads wait":       {batchKeys + 1, batchKeys + 1, 2, 3},
		"more than all reads take, of a large fleet's": {1000, 1000, maxReads, maxReads},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &noted{opened: make(chan struct{})}
				m := New(newFake(), gate)
				var fetches sync.WaitGroup
				fetch := func(keys []policy.Key, p store.Priority) []store.Priority {
					for _, key := range keys {
						fetches.Go(func() { m.Fetch(store.WithPriority(t.Context(), p), key) })
					}
					synctest.Wait()
					return gate.takeEntered()
				}
				keys := numbered(tc.periodic + tc.urgent)
				if entered := fetch(keys[:tc.periodic], store.Periodic); slices.Contains(entered, store.First) {
					t.Errorf("reads of priorities %v wait, want all periodic", entered)
				}
				entered := fetch(keys[tc.periodic:], store.First)
				rejoined := len(slices.DeleteFunc(entered, func(p store.Priority) bool { return p != store.First }))
				if rejoined != tc.rejoins || gate.waiting != tc.reads {
					t.Errorf("%d reads came to the gate for what is new, and %d wait; want %d and %d", rejoined, gate.waiting, tc.rejoins, tc.reads)
				}
				gate.open()
				fetches.Wait()
				m.Close()
			})
		})
	}
}
