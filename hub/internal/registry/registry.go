// Package registry is what the hub's SpokeCluster objects say of a cluster, and
// what is recorded there: the join token that was used, the keys it pinned, and the
// session. It is the only writer of their status.
//
// Reads that decide about access are live, not from a cache: what an administrator
// changed a moment ago counts.
package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
)

// contention is how long writers of one status give way to each other: two agents,
// the end of an older session and counts may meet there. Eight tries take up to
// 2.5 s, and full jitter keeps the same ones from meeting again.
var contention = wait.Backoff{Steps: 8, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 1}

// Registry reads and writes SpokeClusters.
type Registry struct {
	// Reader reads live.
	Reader client.Reader
	// Status writes the status subresource.
	Status client.SubResourceWriter
	// Now is the clock.
	Now func() time.Time
	// Refusals tell which evidence was refused; nil for not at all.
	Refusals *Refusals

	takeovers atomic.Int64
}

// Admitted says whether a cluster may enrol and hold a session: nil, or an
// *identity.Error.
func Admitted(c *v1alpha1.SpokeCluster) error {
	switch {
	case !c.DeletionTimestamp.IsZero():
		return &identity.Error{Reason: identity.ReasonUnknownCluster, Message: "the cluster is being removed"}
	case !c.Spec.Accepted:
		return &identity.Error{Reason: identity.ReasonNotAccepted, Message: "the cluster waits for a platform administrator to set spec.accepted"}
	case c.Spec.Suspend:
		return &identity.Error{Reason: identity.ReasonSuspended, Message: "a platform administrator suspended the cluster"}
	}
	return nil
}

// Check reads a cluster and says whether it may hold a session.
func (r *Registry) Check(ctx context.Context, cluster string) error {
	c, err := r.get(ctx, cluster)
	if err != nil {
		return err
	}
	return Admitted(c)
}

// Report records how many Renders a cluster has, by state, in all and by class.
// Equal counts write nothing.
func (r *Registry) Report(ctx context.Context, cluster string, all v1alpha1.RenderCounts, classes []v1alpha1.ClassRenderCounts) error {
	return retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil {
			return err
		}
		if c.Status.Renders != nil && *c.Status.Renders == all && slices.Equal(c.Status.Classes, classes) {
			return nil
		}
		c.Status.Renders, c.Status.Classes = &all, classes
		return r.Status.Update(ctx, c)
	})
}

// get reads a cluster; a missing one is an *identity.Error.
func (r *Registry) get(ctx context.Context, cluster string) (*v1alpha1.SpokeCluster, error) {
	c := &v1alpha1.SpokeCluster{}
	err := r.Reader.Get(ctx, client.ObjectKey{Name: cluster}, c)
	if apierrors.IsNotFound(err) {
		return nil, &identity.Error{Reason: identity.ReasonUnknownCluster, Message: "no SpokeCluster has this name"}
	}
	if err != nil {
		return nil, fmt.Errorf("read SpokeCluster %s: %w", cluster, err)
	}
	return c, nil
}

// isRefusal tells a verdict about a cluster from a failure to reach one.
func isRefusal(err error) bool {
	var refusal *identity.Error
	return errors.As(err, &refusal)
}
