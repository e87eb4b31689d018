package controller

import (
	"errors"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// How long after a delivery that was not applied the hub is asked again. What may
// pass by itself is tried soon; what needs a decision is looked at now and then,
// since an object without our mark is not watched.
const (
	retryMin  = time.Second
	retryMax  = time.Minute
	rejectMin = 30 * time.Second
	rejectMax = 10 * time.Minute
)

// retryable says whether trying again may help by itself.
func retryable(err error) bool {
	var refused *apply.Error
	return !errors.As(err, &refused) || refused.Retryable()
}

// succeed notes that the target holds what it should, or that the hub will come
// back by itself. What was written may be nil.
func (e *entry) succeed(w *written) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure = nil
	if w != nil {
		e.written = w
		e.repairs.wrote(w, time.Now())
	}
}

// isFight says whether a write would be one repair too many, and notes that as a
// failure. The write that such a failure waited for is none.
func (e *entry) isFight(w *written) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.repairs.fights(w) || (e.failure != nil && e.failure.fought && e.failure.retryAt.IsZero()) {
		return false
	}
	e.failLocked(rejectMin, rejectMax, e.repairs.count-maxRepairs-1, "")
	e.failure.fought = true
	return true
}

// fail notes a delivery that was not applied.
func (e *entry) fail(err error, target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	low, high := rejectMin, rejectMax
	if retryable(err) {
		low, high = retryMin, retryMax
	}
	count := 0
	if e.failure != nil {
		count = e.failure.count
	}
	e.failLocked(low, high, count, target)
}

// failLocked notes a failure after count others in a row. Call it with the lock held.
func (e *entry) failLocked(low, high time.Duration, count int, target string) {
	e.failure = &failure{count: count + 1, target: target, retryAt: time.Now().Add(backoff(low, high, count))}
}

// backoff is the delay after one failure more than count in a row: half to whole, so
// that a namespace full of Renders does not come back as one.
func backoff(low, high time.Duration, count int) time.Duration {
	delay := min(high, low<<min(count, 10))
	return delay/2 + rand.N(delay/2) //nolint:gosec // G404: spreads load, guards nothing
}

// askAgain says whether to ask the hub again now, after a failure, and notes that
// it was asked.
func (e *entry) askAgain(target string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.failure
	if f == nil {
		return false
	}
	due := !f.retryAt.IsZero() && !now.Before(f.retryAt)
	moved := f.target != target && !f.fought
	if !due && !moved {
		return false
	}
	f.retryAt, f.target = time.Time{}, target
	return true
}

// have is the identity of the content to tell the hub: what we wrote while the cache
// does not show it; what the cached target holds otherwise.
func (e *entry) have(render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata, now time.Time) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.written
	if w != nil && (w.uid != render.UID || w.generation != render.Generation || !w.holds(target, now)) {
		w, e.written = nil, nil
	}
	if w != nil {
		return w.contentID
	}
	held := apply.Intact(render, target)
	if held == nil {
		e.repairs.seenLost(render.UID, render.Generation, now)
	}
	return held
}

// isPending says whether the first answer is waited for long enough to say so.
func (e *entry) isPending(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen.IsZero() {
		e.seen = now
	}
	return now.Sub(e.seen) >= pendingAfter
}

// comeBack is when to look at the Render again by itself; 0 for never. What failed to
// be written is tried again at its own pace, and delays nothing else.
func (e *entry) comeBack(failed error, now time.Time) time.Duration {
	wake := e.wakeIn(now)
	if failed == nil {
		e.unwritten = 0
		return wake
	}
	again := backoff(retryMin, retryMax, e.unwritten)
	e.unwritten++
	if wake == 0 {
		return again
	}
	return min(wake, again)
}

// wakeIn is when to look at a Render of which all is told; 0 for never. What was written
// says nothing while there is a failure.
func (e *entry) wakeIn(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var at time.Time
	switch {
	case e.failure != nil:
		at = e.failure.retryAt
	case e.written != nil:
		at = e.written.until
	case !e.seen.IsZero() && now.Sub(e.seen) < pendingAfter:
		at = e.seen.Add(pendingAfter)
	}
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Millisecond)
}
