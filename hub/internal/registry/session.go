package registry

import (
	"context"
	"errors"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
)

// contestedFor is how long a takeover counts: agents that alternate come back within
// two minutes each, so three takeovers fall well within it.
const contestedFor = 10 * time.Minute

var errTakenForOver = errors.New("the session was taken for over")

// OpenSession records a session of an admitted cluster and returns its epoch. Of
// two that open at once each gets its own epoch. Where it fails, the session may be
// recorded for all that; the replica that it names finds that it does not hold it.
func (r *Registry) OpenSession(ctx context.Context, cluster string, s v1alpha1.SpokeSession) (int64, error) {
	tookOver := false
	err := retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil {
			return err
		}
		if err := Admitted(c); err != nil {
			return err
		}
		if tookOver = takesOver(c, s.Instance); tookOver {
			c.Status.Takeovers = append(c.Status.Takeovers, metav1.NewTime(r.Now()))
			c.Status.Takeovers = c.Status.Takeovers[max(0, len(c.Status.Takeovers)-v1alpha1.MaxTakeovers):]
		}
		s.Epoch = r.record(c, s)
		return r.Status.Update(ctx, c)
	})
	if err == nil && tookOver {
		r.takeovers.Add(1)
	}
	return s.Epoch, err
}

// ReopenSession records a session again that is held and that the status takes for
// over, as when its hub could not be heard of for a while, or when the agent's next
// session failed. It returns the session's new epoch; 0 when the status says by now
// that there is a session.
func (r *Registry) ReopenSession(ctx context.Context, cluster string, s v1alpha1.SpokeSession) (epoch int64, err error) {
	err = retry.RetryOnConflict(contention, func() error {
		epoch = 0
		c, err := r.get(ctx, cluster)
		if err != nil {
			return err
		}
		if err := Admitted(c); err != nil {
			return err
		}
		if Connected(c) {
			return nil
		}
		epoch = r.record(c, s)
		return r.Status.Update(ctx, c)
	})
	return epoch, err
}

// CloseSession records that the session of an epoch is over, unless a newer one was
// opened meanwhile.
func (r *Registry) CloseSession(ctx context.Context, cluster string, epoch int64) error {
	err := retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil {
			return err
		}
		if c.Status.Session == nil || c.Status.Session.Epoch != epoch {
			return nil
		}
		setConditions(c, false, r.Now())
		return r.Status.Update(ctx, c)
	})
	if isRefusal(err) {
		return nil // the cluster was removed
	}
	return err
}

// CheckSession reads a cluster and says whether a session of it may go on: the
// cluster is admitted, no other agent opened a newer one, and the session was not taken
// for over. The last is no refusal: another session may open.
func (r *Registry) CheckSession(ctx context.Context, cluster string, epoch int64, instance string) error {
	c, err := r.get(ctx, cluster)
	if err != nil {
		return err
	}
	if latest := c.Status.Session; latest != nil && latest.Epoch > epoch && (instance == "" || latest.Instance != instance) {
		return &identity.Error{Reason: identity.ReasonSuperseded, Message: "another agent of the cluster took over"}
	}
	if err := Admitted(c); err != nil {
		return err
	}
	if c.Status.Session != nil && c.Status.Session.Epoch == epoch && !Connected(c) {
		return errTakenForOver
	}
	return nil
}

// Takeovers is how often an agent took the session of another one, by this process.
func (r *Registry) Takeovers() int64 { return r.takeovers.Load() }

// Connected says whether a cluster has a session by its status.
func Connected(c *v1alpha1.SpokeCluster) bool {
	return apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionConnected)
}

// record makes a session the latest of a cluster and returns its epoch.
func (r *Registry) record(c *v1alpha1.SpokeCluster, s v1alpha1.SpokeSession) int64 {
	s.Epoch = 1
	if c.Status.Session != nil {
		s.Epoch = c.Status.Session.Epoch + 1
	}
	now := r.Now()
	s.ConnectedAt = new(metav1.NewTime(now))
	c.Status.Session = &s
	setConditions(c, true, now)
	return s.Epoch
}

// takesOver says whether a session of an agent takes that of another one, which is
// still held. An agent without a name is not known to be another.
func takesOver(c *v1alpha1.SpokeCluster, instance string) bool {
	held := c.Status.Session
	return held != nil && Connected(c) && held.Instance != "" && instance != "" && held.Instance != instance
}

// contested says whether agents alternate: the takeovers that are remembered are as
// many as can be, and none is long ago.
func contested(c *v1alpha1.SpokeCluster, now time.Time) bool {
	takeovers := c.Status.Takeovers
	return len(takeovers) >= v1alpha1.MaxTakeovers && now.Sub(takeovers[0].Time) < contestedFor
}
