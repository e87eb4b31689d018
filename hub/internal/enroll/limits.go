package enroll

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	grpcpeer "google.golang.org/grpc/peer"

	"dynamic-config.rs/fleet/hub/internal/limit"
	"dynamic-config.rs/fleet/internal/identity"
)

const (
	// allPerSecond and allBurst bound what enrolment costs the hub and its API server
	// (a read each, and a write at a first contact): a thousand clusters that lost
	// their certificates are back within a minute.
	allPerSecond, allBurst = 20, 50
	// sourcePerSecond and sourceBurst leave half of that to everybody else, and let a
	// fleet behind one address through.
	sourcePerSecond, sourceBurst = 10, 25
	// clusterPerSecond and clusterBurst bound an agent that asks again and again. They
	// count by source and claimed name: by the name alone, a stranger who claims it
	// would lock its cluster out.
	clusterPerSecond, clusterBurst = 1, 5
	// maxRunning enrolments at once, beside those that wait for a slow API server.
	maxRunning = 32
	// busyRetry is when to try again where no bucket says.
	busyRetry = time.Second
)

// limits bound what enrolments cost. It is safe for concurrent use.
type limits struct {
	running           chan struct{}
	all               *rate.Limiter
	sources, clusters limit.Buckets
}

func newLimits() *limits {
	return &limits{
		running: make(chan struct{}, maxRunning), all: rate.NewLimiter(allPerSecond, allBurst),
		sources:  limit.Buckets{Limit: sourcePerSecond, Burst: sourceBurst},
		clusters: limit.Buckets{Limit: clusterPerSecond, Burst: clusterBurst},
	}
}

// admit lets one enrolment begin, or says when to try again. Call release at its end.
func (l *limits) admit(ctx context.Context, cluster string, now time.Time) (release func(), err error) {
	source := sourceOf(ctx)
	// The narrowest first, so that who exceeds it takes nothing from the others.
	for _, limiter := range []*rate.Limiter{l.clusters.Get(source + " " + cluster), l.sources.Get(source), l.all} {
		if wait := limit.Take(limiter, now); wait > 0 {
			return nil, tooMany(wait)
		}
	}
	select {
	case l.running <- struct{}{}:
		return func() { <-l.running }, nil
	default:
		return nil, tooMany(busyRetry)
	}
}

func tooMany(wait time.Duration) error {
	return &identity.Error{Reason: identity.ReasonTooManyRequests, Message: "too many enrolments; try again later", RetryAfter: wait}
}

// sourceOf is where the peer is.
func sourceOf(ctx context.Context) string {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		return limit.Source(p.Addr.String())
	}
	return ""
}
