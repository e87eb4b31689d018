package controller

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Deliver takes content from the hub.
func (r *Reconciler) Deliver(d *fleetv1.Deliver, reply func(*fleetv1.DeliveryResult)) {
	r.receive(&answer{ref: d.GetRef(), generation: d.GetGeneration(), deliver: d, reply: reply})
}

// Current takes the news that a target holds what it should.
func (r *Reconciler) Current(c *fleetv1.Current) {
	r.receive(&answer{ref: c.GetRef(), generation: c.GetGeneration(), current: c})
}

// Refuse takes the news that there is no content for a Render.
func (r *Reconciler) Refuse(f *fleetv1.Refusal) {
	countFailure(cmp.Or(f.GetCauseReason(), f.GetReadyReason()))
	r.receive(&answer{ref: f.GetRef(), generation: f.GetGeneration(), refusal: f})
}

// Connected is told whether there is a session.
func (r *Reconciler) Connected(connected bool) {
	if connected {
		r.troubles.set(trouble{})
	} else {
		r.entries.dropAnswers()
	}
	// One slot, the latest state: the reader is late at most, never wrong.
	select {
	case <-r.hubStates:
	default:
	}
	r.hubStates <- connected
}

// receive keeps an answer and wakes the Render's worker. It does not block.
func (r *Reconciler) receive(a *answer) {
	key := types.NamespacedName{Namespace: a.ref.GetNamespace(), Name: a.ref.GetName()}
	r.entries.put(key, a)
	r.queue.Add(ctrl.Request{NamespacedName: key})
}
