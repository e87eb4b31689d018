package feed_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// delayed is a store that answers after a while, as one over a network does.
type delayed struct {
	store.Reader
	after time.Duration
}

func (s delayed) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	select {
	case <-time.After(s.after):
		return s.Reader.Fetch(ctx, key)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hanging is a store that answers nothing for 30 s, every time.
type hanging struct{ store.Reader }

func (hanging) Fetch(ctx context.Context, _ policy.Key) (*store.Document, error) {
	select {
	case <-time.After(30 * time.Second):
		return nil, failing(v1alpha1.ReasonStoreTimeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// latencies are the times from the first word about a document to its arrival, in
// 500 classes of ten documents each, of the classes that do not hang.
func latencies(t *testing.T, hangs int) []time.Duration {
	t.Helper()
	const classes, documents = 500, 10
	var mu sync.Mutex
	began, arrived := time.Now(), map[feed.Subscriber]time.Duration{}
	feeds := feed.New(feed.Config{Wake: func(sub feed.Subscriber) {
		mu.Lock()
		defer mu.Unlock()
		if _, before := arrived[sub]; !before {
			arrived[sub] = time.Since(began)
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- feeds.Run(ctx) }()
	for class := range classes {
		stored := memory.New()
		var reader store.Reader = delayed{polled{stored}, 20 * time.Millisecond}
		if class < hangs {
			reader = hanging{polled{stored}}
		}
		for n := range documents {
			key := policy.Key(fmt.Sprintf("doc/%d", n))
			stored.Put(key, "1")
			feeds.Subscribe(
				feed.Subscriber{Cluster: fmt.Sprintf("class-%d", class), Name: string(key)},
				feed.Source{ID: fmt.Sprint(class), Revision: "1", Open: func() (store.Reader, error) { return reader, nil }}, key, time.Hour)
		}
	}
	pass(5 * time.Minute)
	synctest.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	var all []time.Duration
	for class := hangs; class < classes; class++ {
		for n := range documents {
			d, ok := arrived[feed.Subscriber{Cluster: fmt.Sprintf("class-%d", class), Name: fmt.Sprintf("doc/%d", n)}]
			if !ok {
				t.Fatalf("document %d of class %d never came", n, class)
			}
			all = append(all, d)
		}
	}
	slices.Sort(all)
	return all
}

// Ten classes of five hundred whose stores hang delay none of the others: by the
// clock of the bubble, to the nanosecond.
func TestFeeds_ClassesThatHangDelayNoOther(t *testing.T) {
	percentile := func(all []time.Duration, p int) time.Duration { return all[(len(all)-1)*p/100] }
	var with, without map[string]time.Duration
	measure := func(hangs int) (m map[string]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			all := latencies(t, hangs)
			m = map[string]time.Duration{"p50": percentile(all, 50), "p99": percentile(all, 99), "max": all[len(all)-1]}
		})
		return m
	}
	without, with = measure(0), measure(10)
	t.Logf("time to a document: %v with none of 500 classes hanging, %v with 10", without, with)
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("classes that hang moved the others (-without +with):\n%s", diff)
	}
}
