package replicas

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// DefaultBalanceInterval is how often a replica compares what it holds with what
	// the others hold: as long as a replica that says nothing is believed.
	DefaultBalanceInterval = Lifetime
	// balanceRounds is how often a replica may ask sessions to move after the replicas
	// changed. What is uneven then is left to the age of sessions: a replica that no
	// spoke reaches must not have the others' spokes on the move for ever.
	balanceRounds = 20
	// balanceSlack is what a replica may hold beyond a fifth more than its share: a few
	// sessions are not worth a move.
	balanceSlack = 10
	// maxBalanceWindow is the time over which sessions move: a shutdown waits that long
	// for them by default.
	maxBalanceWindow = 10 * time.Second
)

// Excess is how many of its sessions a replica asks to move now, of those that it holds,
// given what all replicas hold, itself included. It is 0 up to a fifth and ten more than
// its share; above, a tenth of what it holds, and never so many that less than its share
// is left.
func Excess(mine int, all []int) int {
	sum := 0
	for _, n := range all {
		sum += n
	}
	share := (sum + len(all) - 1) / max(1, len(all))
	if mine <= share+share/5+balanceSlack {
		return 0
	}
	return min(mine-share, mine/10)
}

// Balancer has sessions of this replica move to the others while it holds clearly more
// than its share: after a crash all sessions are with the replicas that were left. Where
// a session moves to is for the load balancer to choose.
type Balancer struct {
	// Replica is this one.
	Replica string
	// Watch is the Balancer's own.
	Watch *Watch
	// Held is how many sessions each replica holds.
	Held func(ctx context.Context) (map[string]int, error)
	// Move asks some sessions of this replica to move over a window, and says how many.
	Move func(n int, window time.Duration) int
	// Interval between two looks.
	Interval time.Duration

	moved atomic.Int64

	// What follows belongs to Start's goroutine.

	peers  map[string]time.Time // those that were alive at the last look
	rounds int                  // looks since they changed
}

var _ manager.LeaderElectionRunnable = (*Balancer)(nil)

// NeedLeaderElection is false: each replica looks after its own sessions.
func (*Balancer) NeedLeaderElection() bool { return false }

// Moved is how many sessions were asked to move.
func (b *Balancer) Moved() int64 { return b.moved.Load() }

// Start looks at an interval until the context ends.
func (b *Balancer) Start(ctx context.Context) error {
	tick := time.NewTicker(b.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := b.Look(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Comparing the replicas' sessions failed")
		}
	}
}

// Look looks once. Nothing moves while replicas come and go.
func (b *Balancer) Look(ctx context.Context) error {
	if err := b.Watch.Look(ctx); err != nil {
		return err
	}
	alive := b.Watch.Alive()
	if !maps.Equal(alive, b.peers) {
		b.peers, b.rounds = alive, 0
		return nil
	}
	b.rounds++
	if _, known := alive[b.Replica]; !known || b.rounds > balanceRounds {
		return nil
	}
	held, err := b.Held(ctx)
	if err != nil {
		return err
	}
	all := make([]int, 0, len(alive))
	for replica := range alive {
		all = append(all, held[replica])
	}
	n := Excess(held[b.Replica], all)
	if n == 0 {
		return nil
	}
	n = b.Move(n, min(maxBalanceWindow, b.Interval/3))
	b.moved.Add(int64(n))
	ctrl.LoggerFrom(ctx).Info("Asked sessions to move", "sessions", n, "held", held[b.Replica], "replicas", slices.Sorted(maps.Keys(alive)))
	return nil
}
