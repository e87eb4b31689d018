package syncserver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/internal/identity"
)

const (
	// sessionsPerSecond and sessionsBurst admit a thousand reconnecting spokes within
	// 20 s and keep the API server's share of it (one write each) bounded.
	sessionsPerSecond, sessionsBurst = 50, 100
	// clusterInterval and clusterBurst are one cluster's share: an agent that comes
	// back in a hot loop takes a two hundred and fiftieth of the whole.
	clusterInterval, clusterBurst = 5 * time.Second, 10
	// maxWait bounds how long a new session waits for its turn; the agent gives a hub
	// a minute to say welcome.
	maxWait = 10 * time.Second
	// manyClusters is how many are remembered before those that were quiet for long
	// enough are forgotten.
	manyClusters = 1024
)

// admission paces new sessions: each cluster's by themselves, and then all together.
type admission struct {
	all *rate.Limiter

	// mu guards what follows.
	mu       sync.Mutex
	clusters map[string]*rate.Limiter
	// many is the number of clusters at which to forget some.
	many int
}

func newAdmission() *admission {
	return &admission{all: rate.NewLimiter(sessionsPerSecond, sessionsBurst), clusters: map[string]*rate.Limiter{}, many: manyClusters}
}

// enter waits for a cluster's turn. A cluster that comes too often is refused at once,
// and so is everybody where the turn would come too late; both are told when to come
// again.
func (a *admission) enter(ctx context.Context, cluster string) error {
	if _, wait := book(a.of(cluster), 0); wait > 0 {
		return &identity.Error{Reason: identity.ReasonTooManyRequests, Message: "the cluster opens sessions too often", RetryAfter: wait}
	}
	turn, wait := book(a.all, maxWait)
	if wait > maxWait {
		return &identity.Error{Reason: identity.ReasonUnavailable, Message: "too many spokes connect at once", RetryAfter: wait}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return context.Cause(ctx)
	}
}

// book takes the next turn and says how long it is away; one that is further away than
// within is given back.
func book(limiter *rate.Limiter, within time.Duration) (turn *rate.Reservation, wait time.Duration) {
	turn = limiter.Reserve()
	if wait = turn.Delay(); wait > within {
		turn.Cancel()
	}
	return turn, wait
}

// of is the limiter of a cluster.
func (a *admission) of(cluster string) *rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	limiter, ok := a.clusters[cluster]
	if !ok {
		a.forget()
		limiter = rate.NewLimiter(rate.Every(clusterInterval), clusterBurst)
		a.clusters[cluster] = limiter
	}
	return limiter
}

// forget drops the clusters that were quiet, once there are many: a full limiter says
// no more than none.
func (a *admission) forget() {
	if len(a.clusters) < a.many {
		return
	}
	for cluster, limiter := range a.clusters {
		if limiter.Tokens() >= clusterBurst {
			delete(a.clusters, cluster)
		}
	}
	a.many = max(manyClusters, 2*len(a.clusters))
}
