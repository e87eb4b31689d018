package syncclient

import (
	"context"
	"math/rand/v2"
	"time"

	"dynamic-config.rs/fleet/internal/identity"
)

// Backoff says how long the client waits before it connects again.
type Backoff struct {
	// AfterSession bounds the delay after a session that lasted: uniform in
	// [0, AfterSession]. 15 s when zero, so that the spokes of a hub replica that died
	// do not come back as one.
	AfterSession time.Duration
	// Min is the least delay after an attempt that failed; 1 s when zero.
	Min time.Duration
	// Max bounds the delay after many such attempts; 60 s when zero. A session that
	// was over sooner than that is such an attempt too: the hub may have died of its
	// inventory, or refused it, and would again.
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
	// planned says that the session is held until the next one takes over, which may
	// open at once.
	planned bool
	// lasted is how long the session was established.
	lasted time.Duration
}

// retry picks delays; failures is how many attempts in a row came to no session that
// lasted.
type retry struct {
	backoff  Backoff
	failures int
}

// after returns the delay after an ending. A hub that says when to come again is not
// asked before, and not by all at once; but it may not put us off for long.
func (r *retry) after(end ending) time.Duration {
	hint := min(retryAfter(end.err), r.backoff.Max)
	return max(r.delay(end), uniform(hint, 2*hint))
}

func (r *retry) delay(end ending) time.Duration {
	switch {
	case reasonOf(end.err) == identity.ReasonSuperseded:
		// Another agent of the cluster has the session. To take it back at once would
		// go on for ever; never to come back would leave the cluster without one
		// when the other ends.
		r.failures = 0
		return uniform(r.backoff.Max, 2*r.backoff.Max)
	case end.planned && end.lasted >= r.backoff.Min:
		r.failures = 0
		return 0
	case end.established && end.lasted >= r.backoff.Max:
		r.failures = 0
		return uniform(0, r.backoff.AfterSession)
	}
	r.failures++
	// Ten doublings are far beyond Max in any sensible setting, and cannot overflow.
	most := min(r.backoff.Max, r.backoff.Min<<min(r.failures, 10))
	if end.established { // what ended it may have ended those of other spokes too
		most = max(most, r.backoff.AfterSession)
	}
	return uniform(r.backoff.Min, most)
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
