package controller

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

const (
	testStaleAfter = 10 * time.Minute
	// surelyStale is past the jitter too.
	surelyStale = testStaleAfter + testStaleAfter/5 + time.Second
)

// oneRender is a cache that holds one Render.
type oneRender struct {
	cache.Cache
	render *v1alpha1.DynamicConfigRender
}

func (c oneRender) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	renders, ok := list.(*v1alpha1.DynamicConfigRenderList)
	if ok {
		renders.Items = []v1alpha1.DynamicConfigRender{*c.render}
	}
	return nil
}

// counting is a queue that counts what is added.
type counting struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	added int
}

func (c *counting) AddAfter(_ ctrl.Request, after time.Duration) {
	if after < staleSpread {
		c.added++
	}
}

func TestWatchHub(t *testing.T) {
	absence := func(r *Reconciler, d time.Duration) {
		r.Connected(true)
		pass(time.Hour)
		r.Connected(false)
		pass(d)
	}
	cases := map[string]struct {
		staleBefore bool // the Render said so before the agent started
		during      func(*Reconciler)
		wantKnown   bool
		wantLost    bool
		wantWoken   int
		wantEvents  string
	}{
		"a restart of the agent is no news": {during: func(*Reconciler) {}},
		"a hub that never came is lost": {
			during: func(*Reconciler) { pass(surelyStale) }, wantKnown: true, wantLost: true, wantWoken: 1, wantEvents: "HubLost",
		},
		"a session ends the waiting": {
			during: func(r *Reconciler) { r.Connected(true); pass(time.Hour) }, wantKnown: true,
		},
		"a session ends what was said before the restart": {
			staleBefore: true, during: func(r *Reconciler) { r.Connected(true); pass(time.Hour) }, wantKnown: true, wantWoken: 1,
		},
		"a short absence is no news": {
			during: func(r *Reconciler) {
				absence(r, testStaleAfter-time.Second)
				r.Connected(true)
				pass(time.Hour)
			}, wantKnown: true,
		},
		"a long absence is told once": {
			during:    func(r *Reconciler) { absence(r, time.Hour); r.Connected(false); pass(time.Hour) },
			wantKnown: true, wantLost: true, wantWoken: 1, wantEvents: "HubLost",
		},
		"and so is its end": {
			during:    func(r *Reconciler) { absence(r, time.Hour); r.Connected(true); pass(time.Hour) },
			wantKnown: true, wantWoken: 1, wantEvents: "HubLost Connected",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hubLost.Set(0)
				queue, recorder, render := &counting{}, events.NewFakeRecorder(10), testRender()
				r := &Reconciler{
					queue: queue, entries: *newEntries(), recorder: recorder, staleAfter: testStaleAfter,
					hubStates: make(chan bool, 1), started: make(chan struct{}), agent: &corev1.ObjectReference{},
				}
				if tc.staleBefore {
					r.hub.lost, r.hub.known = true, true
					r.setStale(render)
					r.hub.lost, r.hub.known = false, false
				}
				r.cache = oneRender{render: render}
				close(r.started)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.WatchHub(ctx) }()
				tc.during(r)
				cancel()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if known, lost := r.hub.get(); known != tc.wantKnown || lost != tc.wantLost {
					t.Errorf("want known=%v lost=%v, got %v %v", tc.wantKnown, tc.wantLost, known, lost)
				}
				if queue.added != tc.wantWoken {
					t.Errorf("want Renders woken %d times, got %d", tc.wantWoken, queue.added)
				}
				var told dto.Metric
				if err := hubLost.Write(&told); err != nil || (told.GetGauge().GetValue() == 1) != tc.wantLost {
					t.Errorf("want the metric to say %v, got %v (%v)", tc.wantLost, &told, err)
				}
				checkEvents(t, recorder, tc.wantEvents)
				checkStale(t, r, tc.wantLost)
			})
		})
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

func checkEvents(t *testing.T, recorder *events.FakeRecorder, want string) {
	t.Helper()
	close(recorder.Events)
	var reasons []string
	for event := range recorder.Events {
		reasons = append(reasons, strings.Fields(event)[1])
	}
	if got := strings.Join(reasons, " "); got != want {
		t.Errorf("want the events %q of the agent, got %q", want, got)
	}
}

func checkStale(t *testing.T, r *Reconciler, want bool) {
	t.Helper()
	render := testRender()
	r.setStale(render)
	if got := len(render.Status.Conditions) == 1 && render.Status.Conditions[0].Type == v1alpha1.ConditionStale; got != want {
		t.Errorf("want Stale=%v, got %v", want, render.Status.Conditions)
	}
}
