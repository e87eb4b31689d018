package spokecluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// written remembers what was reported; the next report fails with fail.
type written struct {
	mu      sync.Mutex // guards what follows
	counts  []v1alpha1.RenderCounts
	classes []v1alpha1.ClassRenderCounts // of the last report
	fail    error
}

func (w *written) Report(_ context.Context, _ string, counts v1alpha1.RenderCounts, classes []v1alpha1.ClassRenderCounts) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = append(w.counts, counts)
	w.classes = classes
	err := w.fail
	w.fail = nil
	return err
}

// take returns what was reported since the last take.
func (w *written) take() []v1alpha1.RenderCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := w.counts
	w.counts = nil
	return counts
}

func (w *written) failNext(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

func TestCounter_ReportsWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := fleet.New(fleet.Config{}), &written{}
		counter := &spokecluster.Counter{Fleet: f, Registry: w}
		if counter.NeedLeaderElection() {
			t.Error("only the leader would report, about its own clusters alone")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- counter.Start(ctx) }()

		id := fleet.ID{Namespace: "shop", Name: "web"}
		var session *fleet.Session
		for _, step := range []struct {
			name string
			do   func()
			want []v1alpha1.RenderCounts
		}{
			{"nobody is connected", func() {}, nil},
			{"a cluster has not said yet what it has", func() { session = connect(t, f, "prod", 1, "a") }, nil},
			{"its inventory is whole", func() { session.Replace([]fleet.Spec{{ID: id, Generation: 1}}) }, []v1alpha1.RenderCounts{{Total: 1}}},
			{"nothing changed", func() {}, nil},
			{"a Render is refused", func() {
				f.Deliver("prod", id, fleet.Answer{Generation: 1, Refusal: &fleet.Refusal{}})
				if _, err := session.Next(ctx); err != nil {
					t.Error(err)
				}
			}, []v1alpha1.RenderCounts{{Total: 1, Failed: 1}}},
			{"the report fails", func() { session.Remove(id); w.failNext(errors.New("conflict")) }, []v1alpha1.RenderCounts{{}}},
			{"so it is tried again", func() {}, []v1alpha1.RenderCounts{{}}},
			{"the cluster left", func() { f.Detach(session) }, nil},
		} {
			step.do()
			<-time.After(10 * time.Second)
			synctest.Wait()
			if diff := cmp.Diff(step.want, w.take()); diff != "" {
				t.Errorf("when %s (-want +got):\n%s", step.name, diff)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestCounter_CountsByClassTheLargestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := fleet.New(fleet.Config{}), &written{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- (&spokecluster.Counter{Fleet: f, Registry: w}).Start(ctx) }()
		connect(t, f, "prod", 1, "a").Replace([]fleet.Spec{
			{ID: fleet.ID{Name: "1"}, Class: "DynamicConfigClass/shop/a"},
			{ID: fleet.ID{Name: "2"}, Class: "ClusterDynamicConfigClass/b"},
			{ID: fleet.ID{Name: "3"}, Class: "ClusterDynamicConfigClass/b"},
		})
		<-time.After(10 * time.Second)
		synctest.Wait()
		want := []v1alpha1.ClassRenderCounts{
			{Class: "ClusterDynamicConfigClass/b", RenderCounts: v1alpha1.RenderCounts{Total: 2}},
			{Class: "DynamicConfigClass/shop/a", RenderCounts: v1alpha1.RenderCounts{Total: 1}},
		}
		if diff := cmp.Diff(want, w.classes); diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
