package mirror_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/hub/internal/mirror"
)

type queue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]

func newQueue(t *testing.T) queue {
	t.Helper()
	q := mirror.NewFairQueue(t.Name(), workqueue.DefaultTypedControllerRateLimiter[mcreconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

func request(cluster, name string) mcreconcile.Request {
	return mcreconcile.Request{
		ClusterName: multicluster.ClusterName(cluster),
		Request:     ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: name}},
	}
}

// take takes the next request as "cluster/name".
func take(q queue) string {
	r, _ := q.Get()
	q.Done(r)
	return r.ClusterName.String() + "/" + r.Name
}

func TestFairQueue_ThousandsDoNotDelayOne(t *testing.T) {
	q := newQueue(t)
	for i := range 4000 {
		q.Add(request("noisy", fmt.Sprint(i)))
	}
	q.Add(request("quiet", "web"))
	if n := q.Len(); n != 4001 {
		t.Fatalf("length %d", n)
	}
	for turn := 1; ; turn++ {
		if take(q) == "quiet/web" {
			if turn > 2 {
				t.Errorf("it came as number %d", turn)
			}
			return
		}
	}
}

func TestFairQueue_Order(t *testing.T) {
	for name, tc := range map[string]struct{ add, want []string }{
		"one cluster keeps its order":                    {[]string{"a/1", "a/2", "a/3"}, []string{"a/1", "a/2", "a/3"}},
		"clusters take turns":                            {[]string{"a/1", "a/2", "b/1", "b/2", "c/1"}, []string{"a/1", "b/1", "c/1", "a/2", "b/2"}},
		"a request that comes again keeps its place":     {[]string{"a/1", "a/2", "a/1"}, []string{"a/1", "a/2"}},
		"one name in two clusters is two requests":       {[]string{"a/1", "b/1"}, []string{"a/1", "b/1"}},
		"a cluster without work has no turn to give way": {[]string{"a/1", "b/1", "b/2", "b/3"}, []string{"a/1", "b/1", "b/2", "b/3"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			for _, what := range tc.add {
				q.Add(request(what[:1], what[2:]))
			}
			for i, want := range tc.want {
				if got := take(q); got != want {
					t.Errorf("number %d is %s, want %s", i, got, want)
				}
			}
			if n := q.Len(); n != 0 {
				t.Errorf("%d are left", n)
			}
		})
	}
}

func TestFairQueue_ARequestUnderWayComesAgain(t *testing.T) {
	q := newQueue(t)
	q.Add(request("a", "1"))
	r, _ := q.Get()
	q.Add(r)
	if n := q.Len(); n != 0 {
		t.Errorf("it waits beside itself: %d", n)
	}
	q.Done(r)
	if got := take(q); got != "a/1" {
		t.Errorf("got %s", got)
	}
}
