package feed_test

import (
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// A subscriber that was woken for a new version learns when it came, once; other news
// are no change.
func TestTakeChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := start(t), memory.New()
		s.Put(key, "one")
		f.Subscribe(sub(1), watched(s), key, time.Minute)
		synctest.Wait()
		if c := f.TakeChange(sub(1)); !c.At.Equal(time.Now()) {
			t.Errorf("the first version came at %v, it is %v", c.At, time.Now())
		}
		if c := f.TakeChange(sub(1)); !c.At.IsZero() {
			t.Errorf("the same change was answered twice: %v", c)
		}
		f.Subscribe(sub(2), watched(s), key, time.Minute)
		synctest.Wait()
		if c := f.TakeChange(sub(2)); !c.At.IsZero() {
			t.Errorf("who comes later was not woken for a change: %v", c)
		}

		pass(time.Hour)
		began := time.Now()
		s.Put(key, "two")
		synctest.Wait()
		pass(time.Minute)
		for n := range 2 {
			if c := f.TakeChange(sub(n + 1)); c.At.Before(began) || c.At.Sub(began) > time.Second {
				t.Errorf("subscriber %d: the change of %v came at %v", n+1, began, c.At)
			}
		}
		s.Fail(failing(v1alpha1.ReasonStoreSealed))
		synctest.Wait()
		pass(time.Minute)
		if c := f.TakeChange(sub(1)); f.wakes(sub(1)) == 0 || !c.At.IsZero() {
			t.Errorf("a store that fails is no change: %v", c)
		}
	})
}

func TestTakeChange_WhoLeftHasNone(t *testing.T) {
	for name, leave := range map[string]func(*fixture){
		"by itself":        func(f *fixture) { f.Release(sub(1)) },
		"with its cluster": func(f *fixture) { f.ReleaseCluster(sub(1).Cluster) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s := start(t), memory.New()
				s.Put(key, "one")
				f.Subscribe(sub(1), watched(s), key, time.Minute)
				synctest.Wait()
				leave(f)
				if c := f.TakeChange(sub(1)); !c.At.IsZero() {
					t.Errorf("a change is kept for who left: %v", c)
				}
			})
		})
	}
}

// The trace of a change begins with the request that brought it, and says which
// document it was.
func TestTakeChange_BeginsATrace(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(kept)))
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	for name, tc := range map[string]struct {
		source func(*memory.Store) feed.Source
		names  []string
	}{
		"of a store that is watched": {watched, []string{"store.Fetch", "store.Watch"}},
		"of one that is not":         {unwatched, []string{"store.Fetch", "store.Fetch"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept.Reset()
				f, s := start(t), memory.New()
				s.Put(key, "canary")
				f.Subscribe(sub(1), tc.source(s), key, time.Minute)
				synctest.Wait()
				s.Put(key, "canary too")
				pass(time.Hour)
				var names []string
				for _, span := range kept.GetSpans() {
					names = append(names, span.Name)
					said := map[string]string{}
					for _, a := range span.Attributes {
						said[string(a.Key)] = a.Value.AsString()
					}
					if diff := cmp.Diff(map[string]string{"class": "class", "key": string(key)}, said); diff != "" {
						t.Error(diff)
					}
				}
				if diff := cmp.Diff(tc.names, names); diff != "" {
					t.Error(diff)
				}
				last := kept.GetSpans()[1]
				if got := f.TakeChange(sub(1)).Span; !got.Equal(last.SpanContext) {
					t.Errorf("the change's span is %v, want %v", got, last.SpanContext)
				}
			})
		})
	}
}

// tally counts what an Observer is told.
type tally struct {
	mu      sync.Mutex // guards what follows
	ends    map[string]int
	fetched int
}

func (c *tally) Answered(class string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[class+" "+store.ReasonOf(err)]++
}

func (c *tally) Fetched(string, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched++
}

func TestObserver_IsToldOfEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, s := &tally{ends: map[string]int{}}, memory.New()
		f := startWith(t, feed.Config{Observer: told})
		s.Put(key, "one")
		f.Subscribe(sub(1), watched(s), key, time.Minute)
		synctest.Wait()
		s.Put(key, "two")
		synctest.Wait()
		s.Fail(failing(v1alpha1.ReasonStoreSealed))
		pass(time.Second)
		f.stop() // ends a request that then has no answer
		told.mu.Lock()
		defer told.mu.Unlock()
		ends := maps.Clone(told.ends)
		if sealed := "class " + v1alpha1.ReasonStoreSealed; ends[sealed] == 0 {
			t.Errorf("told %v", ends)
		}
		delete(ends, "class "+v1alpha1.ReasonStoreSealed)
		if diff := cmp.Diff(map[string]int{"class ": 2}, ends); diff != "" || told.fetched == 0 {
			t.Errorf("%s, %d fetches", diff, told.fetched)
		}
	})
}
