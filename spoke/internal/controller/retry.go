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
	}
}

// fail notes a delivery that was not applied.
func (e *entry) fail(err error, target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == nil {
		e.failure = &failure{}
	}
	low, high := rejectMin, rejectMax
	if retryable(err) {
		low, high = retryMin, retryMax
	}
	delay := min(high, low<<min(e.failure.count, 10))
	e.failure.count++
	e.failure.target = target
	// Half to whole: a namespace full of Renders does not come back as one.
	e.failure.retryAt = time.Now().Add(delay/2 + rand.N(delay/2)) //nolint:gosec // G404: spreads load, guards nothing
}

// askAgain says whether to ask the hub again now, after a failure, and notes that
// it was asked.
func (e *entry) askAgain(target string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.failure
	if f == nil || (f.target == target && (f.retryAt.IsZero() || now.Before(f.retryAt))) {
		return false
	}
	f.retryAt, f.target = time.Time{}, target
	return true
}

// have is the identity of the content to tell the hub: none after a failure, so
// that it delivers again; what we wrote while the cache does not show it; what the
// cached target holds otherwise.
func (e *entry) have(render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata, now time.Time) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != nil {
		return nil
	}
	w := e.written
	if w != nil && (w.uid != render.UID || w.generation != render.Generation || !w.holds(target, now)) {
		w, e.written = nil, nil
	}
	if w != nil {
		return w.contentID
	}
	return apply.Intact(render, target)
}

// wakeIn is when to look at the Render again by itself; 0 for never. What was written
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
	}
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Millisecond)
}
