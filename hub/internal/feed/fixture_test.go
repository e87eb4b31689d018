package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// fixture is Feeds that run until the bubble's test ends, and who was woken.
type fixture struct {
	*feed.Feeds

	mu    sync.Mutex
	woken map[feed.Subscriber]int
	stop  func()
}

func start(t *testing.T) *fixture {
	t.Helper()
	return startWith(t, 0)
}

// startWith starts Feeds that hold so many bytes.
func startWith(t *testing.T, maxBytes int64) *fixture {
	t.Helper()
	f := &fixture{woken: map[feed.Subscriber]int{}}
	f.Feeds = feed.New(feed.Config{MaxBytes: maxBytes, Wake: func(sub feed.Subscriber) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.woken[sub]++
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// wakes answers how often the subscriber was woken since the last call, once
// everything that is due has happened.
func (f *fixture) wakes(sub feed.Subscriber) int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.woken[sub]
	f.woken[sub] = 0
	return n
}

// pass lets the bubble's time pass.
func pass(d time.Duration) {
	<-time.After(d)
}

// polled hides that a store can be watched.
type polled struct{ store.Reader }

// watched is a source that can be watched.
func watched(s *memory.Store) feed.Source {
	return feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return s, nil }}
}

// unwatched is a source that can only be polled.
func unwatched(s *memory.Store) feed.Source {
	return feed.Source{ID: "class", Revision: "1", Open: func() (store.Reader, error) { return polled{s}, nil }}
}

func sub(n int) feed.Subscriber {
	return feed.Subscriber{Cluster: fmt.Sprintf("c%d", n%10), Namespace: "team", Name: fmt.Sprint(n)}
}

func text(s feed.Snapshot) string {
	if s.Document == nil {
		return ""
	}
	return string(s.Document.Text)
}

func failing(reason string) error {
	return &store.Error{Reason: reason, Op: "fetch", Err: errors.New("told to fail")}
}

const key = policy.Key("app/db.json")
