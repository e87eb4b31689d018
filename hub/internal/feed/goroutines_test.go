package feed_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// Feeds take one goroutine a document, whatever asks for it and whatever its store
// does, and none that outlives the last subscriber.
func TestFeeds_TakeOneGoroutineADocument(t *testing.T) {
	const documents, subscribers = 20, 10_000
	for name, as := range map[string]func(*memory.Store) store.Reader{
		"a store that is watched": func(s *memory.Store) store.Reader { return s },
		"a store that is polled":  func(s *memory.Store) store.Reader { return polled{s} },
		"a store that hangs":      func(s *memory.Store) store.Reader { return hanging{polled{s}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t)
				stored := memory.New()
				for n := range documents {
					stored.Put(document(n), "1")
				}
				src := feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return as(stored), nil }}
				before := goroutines(t)
				for n := range subscribers {
					f.Subscribe(sub(n), src, document(n%documents), time.Minute)
				}
				for range 10 {
					pass(20 * time.Second)
					if got := goroutines(t) - before; got != documents {
						t.Fatalf("%d goroutines for %d documents of %d subscribers", got, documents, subscribers)
					}
				}
				for n := range subscribers {
					f.Release(sub(n))
				}
				if got := goroutines(t) - before; got != 0 {
					t.Errorf("%d goroutines are left", got)
				}
			})
		})
	}
}

// goroutines are those of the bubble, once all of them wait.
func goroutines(t *testing.T) int {
	t.Helper()
	synctest.Wait()
	all := make([]byte, 1<<20)
	n := runtime.Stack(all, true)
	if n == len(all) {
		t.Fatal("there are more goroutines than the test can read of")
	}
	return bytes.Count(all[:n], []byte("synctest bubble"))
}

func document(n int) policy.Key { return policy.Key(fmt.Sprintf("app/%d.json", n)) }

// BenchmarkFeeds_ADocumentAtRest reports what a small document takes, with its
// subscriber and its goroutine's stack.
func BenchmarkFeeds_ADocumentAtRest(b *testing.B) {
	const documents = 10_000
	for b.Loop() {
		stored := memory.New()
		for n := range documents {
			stored.Put(document(n), "1")
		}
		begun, arrived := memoryInUse(), make(chan struct{}, documents)
		feeds := feed.New(feed.Config{Wake: func(feed.Subscriber) { arrived <- struct{}{} }})
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- feeds.Run(ctx) }()
		src := feed.Source{ID: "class", Revision: "1", Limits: feed.Limits{RequestsPerSecond: 1e6, Burst: 1e6}, Open: func() (store.Reader, error) { return polled{stored}, nil }}
		for n := range documents {
			feeds.Subscribe(sub(n), src, document(n), time.Hour)
		}
		for range documents {
			<-arrived
		}
		b.ReportMetric(float64(memoryInUse()-begun)/documents, "B/document")
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
