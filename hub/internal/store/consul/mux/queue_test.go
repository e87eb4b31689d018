package mux

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestTake_TheMostUrgentKeysAreReadFirst(t *testing.T) {
	m := New(newFake(), open{})
	ask := func(key policy.Key, p store.Priority) {
		m.join(key, &waiter{urgency: p, answer: make(chan Reading, 1)})
	}
	polled := numbered(200)
	for _, key := range polled {
		ask(key, store.Periodic)
	}
	ask(polled[150], store.Prompt) // one that waits already
	ask("new", store.First)
	ask("new", store.Periodic) // makes it no less urgent

	want := slices.Concat([]policy.Key{"new", polled[150]}, polled[:150], polled[151:])
	for start := 0; start < len(want); start += batchKeys {
		got := m.take(m.queueUp(), false).keys()
		if diff := cmp.Diff(want[start:min(start+batchKeys, len(want))], got); diff != "" {
			t.Fatalf("the batch from %d (-want +got):\n%s", start, diff)
		}
	}
	if n := m.queue.len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
