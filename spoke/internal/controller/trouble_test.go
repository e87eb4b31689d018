package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// waitingRenders is a cache of Renders that all wait, each with the message it has.
type waitingRenders struct {
	cache.Cache
	all []v1alpha1.DynamicConfigRender
}

func (c *waitingRenders) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if renders, ok := list.(*v1alpha1.DynamicConfigRenderList); ok {
		renders.Items = c.all
	}
	return nil
}

// waitingRender is a Render whose Ready says what it waits for.
func waitingRender(message string) *v1alpha1.DynamicConfigRender {
	render := testRender()
	apimeta.SetStatusCondition(&render.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: message,
	})
	return render
}

// tolds is a queue that counts the Renders that are to be told, and the latest of them.
type tolds struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	added  int
	latest time.Duration
}

func (q *tolds) AddAfter(_ ctrl.Request, after time.Duration) {
	q.added++
	q.latest = max(q.latest, after)
}

func TestWatchTroubles(t *testing.T) {
	const many = 500 // are told over ten seconds
	const unreachable = "the hub cannot be reached"
	for name, tc := range map[string]struct {
		during     func(*Reconciler)
		wantTold   int
		wantEvents string
	}{
		"a session that opens at once is no news": {during: func(r *Reconciler) { r.Connected(true); pass(time.Hour) }},
		"a trouble is told once": {
			during: func(r *Reconciler) { r.NoSession(unreachable, "HubUntrusted"); pass(time.Hour) }, wantTold: many, wantEvents: "HubUntrusted",
		},
		"a trouble that changes is told again": {
			during: func(r *Reconciler) {
				r.NoSession(unreachable, "HubUntrusted")
				pass(time.Hour)
				r.NoSession("the hub refused this agent", "EvidenceInvalid")
				pass(time.Hour)
			}, wantTold: 2 * many, wantEvents: "HubUntrusted EvidenceInvalid",
		},
		"Renders are told of troubles that alternate once in 100 seconds": {
			during: func(r *Reconciler) {
				for i := range 10 {
					r.NoSession(unreachable, fmt.Sprintf("Cause%d", i))
					pass(9 * time.Second)
				}
				pass(time.Hour)
			}, wantTold: 2 * many, wantEvents: "Cause0 Cause1 Cause2 Cause3 Cause4 Cause5 Cause6 Cause7 Cause8 Cause9",
		},
		"a session gets time to answer": {
			during: func(r *Reconciler) {
				r.NoSession(unreachable, "HubUntrusted")
				pass(time.Hour)
				r.Connected(true)
				pass(answerAfter - time.Second)
			}, wantTold: many, wantEvents: "HubUntrusted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue, recorder := &tolds{}, events.NewFakeRecorder(20)
				r := &Reconciler{
					queue: queue, entries: *newEntries(), recorder: recorder, hubStates: make(chan bool, 1),
					troubles: troubles{moved: make(chan struct{}, 1)}, started: make(chan struct{}), agent: &corev1.ObjectReference{},
				}
				renders := &waitingRenders{}
				for range many {
					renders.all = append(renders.all, *waitingRender(waiting + "."))
				}
				r.cache = renders
				close(r.started)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.WatchTroubles(ctx) }()
				tc.during(r)
				cancel()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if queue.added != tc.wantTold || queue.latest > many*waitingSpread {
					t.Errorf("want %d Renders told, got %d, the latest after %s", tc.wantTold, queue.added, queue.latest)
				}
				checkEvents(t, recorder, tc.wantEvents)
			})
		})
	}
}

func TestReconciler_WaitingMoves(t *testing.T) {
	untrusted := trouble{"the hub cannot be reached", "HubUntrusted"}
	suspended := waitingRender(waiting + ".")
	suspended.Spec.Suspend = true
	for name, tc := range map[string]struct {
		trouble trouble
		render  *v1alpha1.DynamicConfigRender
		want    bool
	}{
		"a Render that nobody has looked at has no message to change": {untrusted, testRender(), false},
		"one that waits says why":                                     {untrusted, waitingRender(waiting + "."), true},
		"and says it once":                                            {untrusted, waitingRender(untrusted.waitingMessage()), false},
		"it says another reason":                                      {trouble{"the hub cannot be reached", "HubUnreachable"}, waitingRender(untrusted.waitingMessage()), true},
		"and none while there is a session":                           {trouble{}, waitingRender(untrusted.waitingMessage()), true},
		"one that the hub has put off keeps the hub's word":           {untrusted, waitingRender("The class is not looked at yet."), false},
		"one that is suspended waits for nobody":                      {untrusted, suspended, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{}
			r.NoSession(tc.trouble.why, tc.trouble.reason)
			if got := r.waitingMoves(tc.render); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
