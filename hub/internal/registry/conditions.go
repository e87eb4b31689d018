package registry

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
)

// Look brings a cluster's conditions up to what is so. lost is the epoch of a session
// that is known to be over, as after the crash of a hub; 0 for none. A cluster that is
// gone is no error.
func (r *Registry) Look(ctx context.Context, cluster string, lost int64) error {
	err := retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil || !r.settle(c, lost) {
			return err
		}
		return r.Status.Update(ctx, c)
	})
	if isRefusal(err) {
		return nil
	}
	return err
}

// Due says whether Look would write, of a cluster as it was read.
func (r *Registry) Due(c *v1alpha1.SpokeCluster, lost int64) bool {
	return r.settle(c.DeepCopy(), lost)
}

// settle sets a cluster's conditions and reports whether that changed them.
func (r *Registry) settle(c *v1alpha1.SpokeCluster, lost int64) bool {
	before := c.Status.DeepCopy()
	held := c.Status.Session != nil && c.Status.Session.Epoch != lost && Connected(c)
	setConditions(c, held, r.Now())
	return !equality.Semantic.DeepEqual(before, &c.Status)
}

// setConditions sets Connected and Ready: ready is a cluster that is admitted and
// connected, and one that is not admitted is neither. Contested is there while it is
// so.
func setConditions(c *v1alpha1.SpokeCluster, connected bool, now time.Time) {
	link := metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDisconnected, Message: "no agent holds a session"}
	if connected {
		link = metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, Message: "an agent holds a session"}
	}
	ready := link
	if refusal, ok := errors.AsType[*identity.Error](Admitted(c)); ok {
		link = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDisconnected, Message: "no session is accepted"}
		ready = metav1.Condition{Status: metav1.ConditionFalse, Reason: refusal.Reason, Message: refusal.Message}
	}
	c.Status.ObservedGeneration = c.Generation
	for kind, condition := range map[string]metav1.Condition{v1alpha1.ConditionReady: ready, v1alpha1.ConditionConnected: link} {
		condition.Type, condition.ObservedGeneration = kind, c.Generation
		apimeta.SetStatusCondition(&c.Status.Conditions, condition)
	}
	if !contested(c, now) {
		apimeta.RemoveStatusCondition(&c.Status.Conditions, v1alpha1.ConditionContested)
		return
	}
	apimeta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionContested, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAgentsAlternate,
		Message: "two agents with this cluster's identity take the session from each other", ObservedGeneration: c.Generation,
	})
}
