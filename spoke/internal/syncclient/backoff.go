package syncclient

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff says how long the client waits before it connects again.
type Backoff struct {
	// AfterSession bounds the first delay after a session that was established:
	// uniform in [0, AfterSession]. 15 s when zero, so that the spokes of a hub
	// replica that died do not come back as one.
	AfterSession time.Duration
	// Min is the least delay after an attempt that failed; 1 s when zero.
	Min time.Duration
	// Max bounds the delay after many such attempts; 60 s when zero.
	Max time.Duration
}

// withDefaults fills in the zero fields.
func (b Backoff) withDefaults() Backoff {
	if b.AfterSession == 0 {
		b.AfterSession = 15 * time.Second
	}
	if b.Min == 0 {
		b.Min = time.Second
	}
	if b.Max == 0 {
		b.Max = time.Minute
	}
	b.Max = max(b.Max, b.Min)
	return b
}

// ending says how an attempt to hold a session ended.
type ending struct {
	err error
	// established says that the hub welcomed us.
	established bool
	// planned says that we ended the session to open the next one at once.
	planned bool
	// lasted is how long the session was established.
	lasted time.Duration
}

// retry picks delays; failures is how many attempts failed in a row.
type retry struct {
	backoff  Backoff
	failures int
}

// after returns the delay after an ending.
func (r *retry) after(end ending) time.Duration {
	switch {
	case end.planned && end.lasted >= r.backoff.Min:
		r.failures = 0
		return 0
	case end.established:
		r.failures = 0
		return uniform(0, r.backoff.AfterSession)
	default:
		r.failures++
		// Ten doublings are far beyond Max in any sensible setting, and cannot overflow.
		delay := uniform(r.backoff.Min, min(r.backoff.Max, r.backoff.Min<<min(r.failures, 10)))
		return max(delay, min(r.backoff.Max, retryAfter(end.err)))
	}
}

// uniform is a random duration in [low, high].
func uniform(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + rand.N(high-low+1) //nolint:gosec // G404: spreads load, guards nothing
}

// pause waits, and says whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
