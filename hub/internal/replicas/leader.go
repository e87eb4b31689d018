package replicas

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaderLease is the Lease that the leader holds.
const leaderLease = "dynamic-config-hub-leader"

// The times of the leader's Lease, as the components of Kubernetes use them.
const (
	leaderDuration = 15 * time.Second
	leaderDeadline = 10 * time.Second
	leaderRetry    = 2 * time.Second
)

// Leader takes part in the election of the leader.
type Leader struct {
	elector *leaderelection.LeaderElector
	// terms under way here: 0 or 1, and for a moment one that ends beside one that
	// begins.
	terms atomic.Int32

	// mu guards begins.
	mu     sync.Mutex
	begins []func(ctx context.Context)
}

// NewLeader returns a candidate under the name of its replica.
func NewLeader(client coordinationclient.CoordinationV1Interface, namespace, replica string) (*Leader, error) {
	l := &Leader{}
	var err error
	l.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaderLease,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaderLease}, Client: client,
			// Another process of the same name is another candidate.
			LockConfig: resourcelock.ResourceLockConfig{Identity: replica + "_" + rand.Text()},
		},
		LeaseDuration: leaderDuration, RenewDeadline: leaderDeadline, RetryPeriod: leaderRetry,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: l.lead, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, fmt.Errorf("take part in the election of the leader: %w", err)
	}
	return l, nil
}

// Run stands for election until the context ends, again whenever the lead was lost.
// The lead is given back at the end.
func (l *Leader) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		l.elector.Run(ctx)
	}
	return nil
}

// Leading says whether this replica leads now.
func (l *Leader) Leading() bool { return l.terms.Load() > 0 }

// OnLead has begin called, with the term's context, whenever this replica begins to
// lead from now on.
func (l *Leader) OnLead(begin func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begins = append(l.begins, begin)
}

// lead is one term.
func (l *Leader) lead(term context.Context) {
	l.terms.Add(1)
	defer l.terms.Add(-1)
	l.mu.Lock()
	begins := slices.Clone(l.begins)
	l.mu.Unlock()
	for _, begin := range begins {
		begin(term)
	}
	<-term.Done()
}

// Alone is the leader of a hub that has one replica, without an election.
type Alone struct{}

// Leading is always true.
func (Alone) Leading() bool { return true }

// Run does nothing.
func (Alone) Run(context.Context) error { return nil }

// OnLead does nothing: there is no other time.
func (Alone) OnLead(func(ctx context.Context)) {}
