package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// oneRender is a cache that holds testRender.
type oneRender struct{ cache.Cache }

func (oneRender) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	renders, ok := list.(*v1alpha1.DynamicConfigRenderList)
	if ok {
		renders.Items = []v1alpha1.DynamicConfigRender{*testRender()}
	}
	return nil
}

// counting is a queue that counts what is added.
type counting struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	added int
}

func (c *counting) Add(ctrl.Request) { c.added++ }

func TestWatchHub(t *testing.T) {
	cases := map[string]struct {
		during    func(*Reconciler)
		wantKnown bool
		wantLost  bool
		wantWoken int
	}{
		"a restart of the agent is no news": {during: func(*Reconciler) {}},
		"a hub that never came is lost": {
			during: func(*Reconciler) { pass(staleAfter) }, wantKnown: true, wantLost: true, wantWoken: 1,
		},
		"a session ends the waiting": {
			during: func(r *Reconciler) { r.Connected(true); pass(time.Hour) }, wantKnown: true, wantWoken: 1,
		},
		"a short absence is no news": {
			during: func(r *Reconciler) {
				r.Connected(true)
				pass(time.Hour)
				r.Connected(false)
				pass(staleAfter - time.Second)
				r.Connected(true)
				pass(time.Hour)
			}, wantKnown: true, wantWoken: 1,
		},
		"a long absence is": {
			during: func(r *Reconciler) {
				r.Connected(true)
				pass(time.Hour)
				r.Connected(false)
				pass(staleAfter)
			}, wantKnown: true, wantLost: true, wantWoken: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := &counting{}
				r := &Reconciler{
					cache: oneRender{}, queue: queue, entries: *newEntries(),
					hubStates: make(chan bool, 1), started: make(chan struct{}),
				}
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

func checkStale(t *testing.T, r *Reconciler, want bool) {
	t.Helper()
	render := testRender()
	r.setStale(render)
	if got := len(render.Status.Conditions) == 1 && render.Status.Conditions[0].Type == v1alpha1.ConditionStale; got != want {
		t.Errorf("want Stale=%v, got %v", want, render.Status.Conditions)
	}
}
