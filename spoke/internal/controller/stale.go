package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// staleAfter is how long the hub may be away before Renders say so: a roll-out of
// the hub, and a spoke's whole backoff, are over by then.
const staleAfter = 5 * time.Minute

// hubView is what is known of the hub. Until the first session, or until
// staleAfter has passed, nothing is: a restart of the agent is no news.
type hubView struct {
	mu    sync.Mutex // guards what follows
	known bool
	lost  bool
}

// set reports whether the view changed.
func (h *hubView) set(lost bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := !h.known || h.lost != lost
	h.known, h.lost = true, lost
	return changed
}

func (h *hubView) get() (known, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known, h.lost
}

// WatchHub keeps the Stale condition of all Renders until ctx ends.
func (r *Reconciler) WatchHub(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.started:
	}
	lost := time.NewTimer(staleAfter)
	defer lost.Stop()
	for {
		changed := false
		select {
		case <-ctx.Done():
			return nil
		case connected := <-r.hubStates:
			lost.Stop()
			if connected {
				changed = r.hub.set(false)
			} else {
				lost.Reset(staleAfter)
			}
		case <-lost.C:
			changed = r.hub.set(true)
		}
		if !changed {
			continue
		}
		if err := r.wakeAll(ctx); err != nil {
			return err
		}
	}
}

// wakeAll has every Render reconciled.
func (r *Reconciler) wakeAll(ctx context.Context) error {
	var all v1alpha1.DynamicConfigRenderList
	if err := r.cache.List(ctx, &all); err != nil {
		return fmt.Errorf("list Renders: %w", err)
	}
	for i := range all.Items {
		r.queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return nil
}

// setStale sets or removes the Stale condition.
func (r *Reconciler) setStale(render *v1alpha1.DynamicConfigRender) {
	known, lost := r.hub.get()
	switch {
	case !known:
	case lost:
		apimeta.SetStatusCondition(&render.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionStale, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubLost,
			Message:            fmt.Sprintf("No session with the hub for %s or longer.", staleAfter),
			ObservedGeneration: render.Generation,
		})
	default:
		apimeta.RemoveStatusCondition(&render.Status.Conditions, v1alpha1.ConditionStale)
	}
}
