package requeue_test

import (
	"testing"
	"time"

	"dynamic-config.rs/fleet/internal/requeue"
)

func TestLimiter_EachObjectGoesByItsOwnFailures(t *testing.T) {
	const objects = 5000
	limiter := requeue.Limiter[int]()
	for failures, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		longest := time.Duration(seconds) * time.Second
		seen := map[time.Duration]bool{}
		for object := range objects {
			delay := limiter.When(object)
			if delay < longest/2 || delay > longest {
				t.Fatalf("after %d failures of each before it waits %s, want %s to %s", failures, delay, longest/2, longest)
			}
			seen[delay] = true
		}
		if len(seen) < objects/2 {
			t.Errorf("after %d failures %d objects come back at %d moments", failures, objects, len(seen))
		}
	}
	for range 1000 { // as in an outage of hours
		if delay := limiter.When(0); delay < 15*time.Second || delay > 30*time.Second {
			t.Fatalf("after many failures an object waits %s, want 15 to 30 s", delay)
		}
	}
	limiter.Forget(0)
	if delay := limiter.When(0); delay > time.Second {
		t.Errorf("an object that went well begins with %s, want 1 s at most", delay)
	}
}
