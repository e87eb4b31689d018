// Package requeue says when a controller looks again at an object that it failed at.
//
// client-go's answer doubles from 5 ms to 17 minutes, and lets ten objects a second
// through for all of a controller together: after an API server was away for a moment,
// the last of 2,000 Renders would be looked at minutes later, and a single one long after
// an outage. Here each object goes by its own failures alone. What the API server is
// spared is in the number of a controller's workers, each with one request under way.
//
// Every controller of hub and agent uses it.
package requeue

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	// first is after the first failure: one look sooner finds the same.
	first = time.Second
	// most is after many: what came back is found within this time.
	most = 30 * time.Second
)

// Limiter returns the rate limiter of one controller.
func Limiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return jittered[T]{workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, most)}
}

// jittered spreads objects that failed together.
type jittered[T comparable] struct{ workqueue.TypedRateLimiter[T] }

// When is half to whole of the limiter's delay.
func (j jittered[T]) When(item T) time.Duration {
	delay := j.TypedRateLimiter.When(item)
	return delay/2 + rand.N(delay/2+1) //nolint:gosec // G404: spreads load, guards nothing
}
