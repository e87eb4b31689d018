package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// DefaultStaleAfter is how long the hub may be away before Renders say so: a roll-out
// of the hub, and a spoke's whole backoff, are over by then.
const DefaultStaleAfter = 10 * time.Minute

// staleSpread is the time over which the Renders of a cluster are told: 5,000 of them
// are 50 writes a second for the API server.
const staleSpread = 100 * time.Second

// hubView is what is known of the hub. Until the first session, or until the time
// that the hub may be away has passed, nothing is: a restart of the agent is no news.
type hubView struct {
	mu    sync.Mutex // guards what follows
	known bool
	lost  bool
}

// set reports whether the view changed, and whether the hub was lost until now.
func (h *hubView) set(lost bool) (changed, wasLost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed, wasLost = !h.known || h.lost != lost, h.lost
	h.known, h.lost = true, lost
	return changed, wasLost
}

func (h *hubView) get() (known, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known, h.lost
}

// patience is how long the hub may be away this time. A hub that goes leaves all its
// clusters at once; they do not tell it at once.
func (r *Reconciler) patience() time.Duration {
	return r.staleAfter + rand.N(r.staleAfter/5+1) //nolint:gosec // G404: spreads load, guards nothing
}

// WatchHub keeps the Stale condition of all Renders until ctx ends. That the hub is
// lost is told once for the agent, by a metric and an event, and once on each Render.
func (r *Reconciler) WatchHub(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.started:
	}
	lost := time.NewTimer(r.patience())
	defer lost.Stop()
	for {
		var away bool
		select {
		case <-ctx.Done():
			return nil
		case connected := <-r.hubStates:
			lost.Stop()
			if !connected {
				lost.Reset(r.patience())
				continue
			}
		case <-lost.C:
			away = true
		}
		if err := r.see(ctx, away); err != nil {
			return err
		}
	}
}

// see takes the news that the hub is lost, or there, and tells it where it is news.
func (r *Reconciler) see(ctx context.Context, lost bool) error {
	changed, wasLost := r.hub.set(lost)
	if !changed {
		return nil
	}
	switch {
	case lost:
		hubLost.Set(1)
		r.recorder.Eventf(r.agent, nil, corev1.EventTypeWarning, v1alpha1.ReasonHubLost, "Connect", "No session with the hub for %s or longer.%s", r.staleAfter, r.troubles.get().sentence())
	case wasLost:
		hubLost.Set(0)
		r.recorder.Eventf(r.agent, nil, corev1.EventTypeNormal, v1alpha1.ReasonConnected, "Connect", "There is a session with the hub again.")
	}
	return r.wakeAll(ctx)
}

// wakeAll has every Render reconciled that has something to say, over a while.
func (r *Reconciler) wakeAll(ctx context.Context) error {
	var all v1alpha1.DynamicConfigRenderList
	if err := r.cache.List(ctx, &all); err != nil {
		return fmt.Errorf("list Renders: %w", err)
	}
	for i := range all.Items {
		if r.staleMoves(&all.Items[i]) {
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])}
			r.queue.AddAfter(request, rand.N(staleSpread)) //nolint:gosec // G404: spreads load, guards nothing
		}
	}
	return nil
}

// staleMoves says whether the hub being lost or found changes a Render's status.
func (r *Reconciler) staleMoves(render *v1alpha1.DynamicConfigRender) bool {
	known, lost := r.hub.get()
	stale := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionStale) != nil
	return known && lost != stale
}

// setStale sets or removes the Stale condition.
func (r *Reconciler) setStale(render *v1alpha1.DynamicConfigRender) {
	known, lost := r.hub.get()
	switch {
	case !known:
	case lost:
		apimeta.SetStatusCondition(&render.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionStale, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubLost,
			Message:            fmt.Sprintf("No session with the hub for %s or longer.", r.staleAfter),
			ObservedGeneration: render.Generation,
		})
	default:
		apimeta.RemoveStatusCondition(&render.Status.Conditions, v1alpha1.ConditionStale)
	}
}
