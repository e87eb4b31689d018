package replicas

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// forgetAfter is when the Lease of a replica that said nothing any more is deleted:
// long after everybody knows.
const forgetAfter = time.Hour

// Watch looks which replicas are alive. It is not safe for concurrent use.
type Watch struct {
	leases coordinationclient.LeaseInterface
	now    func() time.Time
	seen   map[string]sighting
}

// sighting is a replica's Lease as it was seen. What counts is when it changed by our
// own clock: those of replicas need not agree.
type sighting struct {
	renewed metav1.MicroTime
	changed time.Time
	renews  bool      // it changed while we looked
	began   time.Time // of its process, by its own clock
}

// NewWatch returns a Watch that saw nothing yet.
func NewWatch(leases coordinationclient.LeaseInterface, now func() time.Time) *Watch {
	return &Watch{leases: leases, now: now, seen: map[string]sighting{}}
}

// Look reads the Leases, and deletes those of replicas that are gone for good.
func (w *Watch) Look(ctx context.Context) error {
	list, err := w.leases.List(ctx, metav1.ListOptions{LabelSelector: labelReplica})
	if err != nil {
		return fmt.Errorf("list the leases of replicas: %w", err)
	}
	seen := make(map[string]sighting, len(list.Items))
	for i := range list.Items {
		replica, now := w.sight(&list.Items[i])
		if w.now().Sub(now.changed) > forgetAfter {
			version := list.Items[i].ResourceVersion
			// A conflict means that it is alive after all; whatever fails is tried again.
			_ = w.leases.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		}
		seen[replica] = now
	}
	w.seen = seen
	return nil
}

// sight is one Lease, compared with what was seen of it before.
func (w *Watch) sight(lease *coordinationv1.Lease) (replica string, s sighting) {
	s = sighting{changed: w.now()}
	if lease.Spec.HolderIdentity != nil {
		replica = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		s.renewed = *lease.Spec.RenewTime
	}
	if lease.Spec.AcquireTime != nil {
		s.began = lease.Spec.AcquireTime.Time
	}
	before, ok := w.seen[replica]
	switch {
	case ok && before.renewed.Equal(&s.renewed):
		s.changed, s.renews = before.changed, before.renews
	case ok:
		s.renews = true
	}
	return replica, s
}

// Alive are the replicas that are known to live, each with when its process began: they
// renewed their Leases while we looked, the last time not long ago.
func (w *Watch) Alive() map[string]time.Time {
	alive := map[string]time.Time{}
	for replica, s := range w.seen {
		if s.renews && w.now().Sub(s.changed) <= Lifetime {
			alive[replica] = s.began
		}
	}
	return alive
}

// Over says whether a session is known to be over: its replica says nothing any more,
// or it was opened by an earlier process of the replica's name. A session of which
// neither can be said yet is not.
func (w *Watch) Over(s *v1alpha1.SpokeSession) bool {
	replica, ok := w.seen[s.Hub]
	if ok && w.now().Sub(replica.changed) > Lifetime {
		return true
	}
	began := replica.began.Truncate(time.Second) // as a session's time is
	if s.ConnectedAt == nil || ok && !began.After(s.ConnectedAt.Time) {
		return false
	}
	// The spoke is believed to come back within the lifetime of a Lease, and a replica
	// to have written one.
	since := s.ConnectedAt.Time
	if ok {
		since = began
	}
	return w.now().Sub(since) > Lifetime
}
