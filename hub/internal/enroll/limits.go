package enroll

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	grpcpeer "google.golang.org/grpc/peer"

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
	// maxBuckets bounds what is remembered of sources and names: less than 1 MiB.
	maxBuckets = 4096
	// maxRunning enrolments at once, beside those that wait for a slow API server.
	maxRunning = 32
	// busyRetry is when to try again where no bucket says.
	busyRetry = time.Second
)

// limits bound what enrolments cost. It is safe for concurrent use.
type limits struct {
	running           chan struct{}
	all               *rate.Limiter
	sources, clusters buckets
}

func newLimits() *limits {
	return &limits{
		running: make(chan struct{}, maxRunning), all: rate.NewLimiter(allPerSecond, allBurst),
		sources:  buckets{limit: sourcePerSecond, burst: sourceBurst},
		clusters: buckets{limit: clusterPerSecond, burst: clusterBurst},
	}
}

// admit lets one enrolment begin, or says when to try again. Call release at its end.
func (l *limits) admit(ctx context.Context, cluster string, now time.Time) (release func(), err error) {
	source := sourceOf(ctx)
	// The narrowest first, so that who exceeds it takes nothing from the others.
	for _, limiter := range []*rate.Limiter{l.clusters.get(source + " " + cluster), l.sources.get(source), l.all} {
		if wait := take(limiter, now); wait > 0 {
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

// take takes a token, or says when there is one.
func take(limiter *rate.Limiter, now time.Time) time.Duration {
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// sourceOf is the address of the peer; of IPv6 the network, of which a host has all
// addresses.
func sourceOf(ctx context.Context) string {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return ""
	}
	parsed, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return ""
	}
	addr := parsed.Addr().Unmap()
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// buckets are limiters by key.
type buckets struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex // guards byKey
	byKey map[string]*rate.Limiter
}

// get returns the limiter of a key. Where there are too many, all are forgotten: each
// gets its burst anew, and the bound on the whole holds.
func (b *buckets) get(key string) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter, ok := b.byKey[key]
	if ok {
		return limiter
	}
	if b.byKey == nil || len(b.byKey) >= maxBuckets {
		b.byKey = make(map[string]*rate.Limiter)
	}
	limiter = rate.NewLimiter(b.limit, b.burst)
	b.byKey[key] = limiter
	return limiter
}
