package registry

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
)

// Look brings a cluster's conditions up to what its spec says. lost says that the
// session it has by its status is known to be over, as after the crash of a hub. A
// cluster that is gone is no error.
func (r *Registry) Look(ctx context.Context, cluster string, lost bool) error {
	err := retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil {
			return err
		}
		before := c.Status.DeepCopy()
		setConditions(c, !lost && apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionConnected))
		if equality.Semantic.DeepEqual(before, &c.Status) {
			return nil
		}
		return r.Status.Update(ctx, c)
	})
	if isRefusal(err) {
		return nil
	}
	return err
}

// setConditions sets Connected and Ready: ready is a cluster that is admitted and
// connected, and one that is not admitted is neither.
func setConditions(c *v1alpha1.SpokeCluster, connected bool) {
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
}
