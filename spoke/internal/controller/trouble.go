package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

const (
	// waiting begins the message of a Render that waits for its first answer.
	waiting = "Waiting for the hub's first answer"
	// waitingSpread is the time for each Render that waits when all are told why: 50
	// writes a second, as staleSpread.
	waitingSpread = 20 * time.Millisecond
	// waitingRest times as long as telling them takes, they are not told again: reasons
	// that alternate for hours are five writes a second at most.
	waitingRest = 10
	// answerAfter is how long a session may take to answer every Render before those
	// that still wait are told that there is one.
	answerAfter = 30 * time.Second
)

// trouble is why no session opens; empty while there is one, and until an attempt
// failed.
type trouble struct{ why, reason string }

// waitingMessage is the message of a Render that waits for its first answer.
func (t trouble) waitingMessage() string {
	if t == (trouble{}) {
		return waiting + "."
	}
	return fmt.Sprintf("%s: %s (%s).", waiting, t.why, t.reason)
}

// sentence says it after another one.
func (t trouble) sentence() string {
	if t == (trouble{}) {
		return ""
	}
	return fmt.Sprintf(" Now: %s (%s).", t.why, t.reason)
}

// troubles keep the latest trouble.
type troubles struct {
	mu    sync.Mutex // guards now
	now   trouble
	moved chan struct{} // has one slot: the reader is late at most, never wrong
}

func (t *troubles) set(now trouble) {
	t.mu.Lock()
	t.now = now
	t.mu.Unlock()
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

func (t *troubles) get() trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// NoSession is told why no session opens, when that changes.
func (r *Reconciler) NoSession(why, reason string) { r.troubles.set(trouble{why, reason}) }

// WatchTroubles tells why no session opens until ctx ends: in an event of the agent when
// it changes, and, more rarely, on the Renders that never had an answer. Those that had
// one keep their status.
func (r *Reconciler) WatchTroubles(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.started:
	}
	var told trouble
	var rested time.Time
	due := time.NewTimer(0)
	due.Stop()
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.troubles.moved:
			now := r.troubles.get()
			if now == told {
				continue
			}
			told = now
			due.Reset(max(r.tellAgent(now), time.Until(rested)))
		case <-due.C:
			takes, err := r.tellWaiting(ctx)
			if err != nil {
				return err
			}
			rested = time.Now().Add(waitingRest * takes)
		}
	}
}

// tellAgent tells the agent's trouble in an event, and returns when to tell the Renders.
func (r *Reconciler) tellAgent(now trouble) time.Duration {
	if now == (trouble{}) {
		return answerAfter // nearly all are answered by then
	}
	r.recorder.Eventf(r.agent, nil, corev1.EventTypeWarning, now.reason, "Connect", "No session: %s. The agent's log says more.", now.why)
	return 0
}

// tellWaiting has the Renders reconciled that wait for a first answer and say another
// reason, or none. It returns the time over which that is spread.
func (r *Reconciler) tellWaiting(ctx context.Context) (time.Duration, error) {
	var all v1alpha1.DynamicConfigRenderList
	if err := r.cache.List(ctx, &all); err != nil {
		return 0, fmt.Errorf("list Renders: %w", err)
	}
	var requests []ctrl.Request
	for i := range all.Items {
		if r.waitingMoves(&all.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	spread := time.Duration(len(requests)) * waitingSpread
	for _, request := range requests {
		r.queue.AddAfter(request, rand.N(spread)) //nolint:gosec // G404: spreads load, guards nothing
	}
	return spread, nil
}

// waitingMoves says whether a Render that waits for its first answer should say another
// reason why.
func (r *Reconciler) waitingMoves(render *v1alpha1.DynamicConfigRender) bool {
	ready := apimeta.FindStatusCondition(render.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && !render.Spec.Suspend && isWaiting(ready.Reason, ready.Message) && ready.Message != r.troubles.get().waitingMessage()
}

// isWaiting says whether a Ready condition is that of a Render that never had an answer.
func isWaiting(reason, message string) bool {
	return reason == v1alpha1.ReasonPending && strings.HasPrefix(message, waiting)
}
