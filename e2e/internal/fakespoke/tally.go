package fakespoke

import (
	"context"
	"sync"
)

// Counts are what some spokes saw together.
type Counts struct {
	// Sessions that are open now.
	Sessions int
	// Answered are the Renders that the hub answered in the sessions open now.
	Answered int
	// Deliveries of content so far, and the Bytes of their keys and values.
	Deliveries int
	Bytes      int64
	// Currents and Refusals so far.
	Currents, Refusals int
	// Failures are sessions that ended other than by the hub's wish.
	Failures int
}

// Tally counts for many spokes. It is safe for concurrent use; its zero value is
// ready.
type Tally struct {
	mu      sync.Mutex // guards what follows
	counts  Counts
	changed chan struct{} // closed at the next change; nil without a waiter
}

func (t *Tally) note(change func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.counts)
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Counts answers the counts so far.
func (t *Tally) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// Until waits for counts that are enough, or the context's end.
func (t *Tally) Until(ctx context.Context, enough func(Counts) bool) error {
	for {
		t.mu.Lock()
		if enough(t.counts) {
			t.mu.Unlock()
			return nil
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
