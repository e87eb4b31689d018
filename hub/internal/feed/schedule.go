package feed

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	defaultInterval = time.Duration(v1alpha1.DefaultIntervalSeconds) * time.Second
	shortest        = time.Second
	// outageCap is the first delay, or the interval where that is shorter, while a store
	// as a whole fails: with jitter every document is tried within half a minute of a
	// short outage's end, also one that is watched and has an interval of a day.
	outageCap = 20 * time.Second
	// faultCap is the same while only this document fails.
	faultCap = 5 * time.Minute
)

// plan says when a document is fetched next.
type plan struct {
	last     time.Time // when the last fetch or watch ended
	failures int       // in a row
	reason   string    // of the last of them
	phase    uint64    // spreads documents over their interval, the same on every replica
	chance   float64   // in [0, 1), drawn once a fetch
}

// newPlan is the plan of a document that was never fetched.
func newPlan(id feedID) plan {
	hash := fnv.New64a()
	for _, part := range []string{id.source.id, "\x00", string(id.key)} {
		_, _ = hash.Write([]byte(part))
	}
	return plan{phase: hash.Sum64()}
}

// after is the plan once a fetch or watch ended with got.
func (p plan) after(got result, now time.Time) plan {
	p.last = now
	p.chance = rand.Float64() //nolint:gosec // spreads load, keeps no secret
	if got.settled() {
		p.failures = 0
		return p
	}
	p.failures++
	p.reason = store.ReasonOf(got.err)
	return p
}

// next is when the document is fetched next at that interval.
func (p plan) next(interval time.Duration) time.Time {
	if p.failures == 0 {
		return nextTick(p.last, interval, p.phase).Add(time.Duration(p.chance * float64(interval/10)))
	}
	delay := p.delay(interval)
	return p.last.Add(delay + time.Duration(p.chance*float64(delay/5)))
}

// delay doubles with failures in a row, from the interval up to a cap. A document that
// fails with its store starts lower and gets as rare as its interval.
func (p plan) delay(interval time.Duration) time.Duration {
	delay, limit := interval, faultCap
	switch {
	case isDown(p.reason):
		delay, limit = min(interval, outageCap), max(interval, outageCap)
	case p.reason == v1alpha1.ReasonStoreThrottled:
		limit = outageCap
	}
	for range p.failures - 1 {
		if delay >= limit {
			break
		}
		delay = min(2*delay, limit)
	}
	return delay
}

// nextTick is the first moment after t that lies at the phase of the interval.
func nextTick(t time.Time, interval time.Duration, phase uint64) time.Time {
	every := uint64(interval)
	into := (uint64(t.UnixNano()) + every - phase%every) % every
	return t.Add(interval - time.Duration(into))
}

// isOutage says whether the store as a whole fails, in a way that ends by itself.
// A refused credential is none: a better one comes as a new revision.
func isOutage(err error) bool {
	reason := store.ReasonOf(err)
	return isDown(reason) || reason == v1alpha1.ReasonStoreThrottled
}

// effective is the interval that a subscriber gets.
func effective(asked time.Duration, limits Limits) time.Duration {
	if asked <= 0 {
		asked = defaultInterval
	}
	return max(asked, limits.MinInterval, shortest)
}
