package hub

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// A cluster that was away before is given the whole while anew.
func TestNewFleet_AWhileCountsFromTheLastSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feeds := feed.New(feed.Config{Wake: func(feed.Subscriber) {}})
		clusters := newFleet(Config{ReleaseAfter: 30 * time.Second}, feeds, mirror.NewProvider(runtime.NewScheme()))
		source := feed.Source{ID: "class/team", Open: func() (store.Reader, error) { return nil, errors.New("not now") }}
		feeds.Subscribe(feed.Subscriber{Cluster: "prod", Namespace: "shop", Name: "web"}, source, "app.json", time.Minute)
		connect := func() *fleet.Session {
			s, err := clusters.Connect("prod", 1, "a")
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		session := connect()
		for _, step := range []struct {
			name string
			do   func()
			rest time.Duration
			want int // subscribers afterwards
		}{
			{"it is lost", func() { clusters.Detach(session) }, 5 * time.Second, 1},
			{"it is back", func() { session = connect() }, 24 * time.Second, 1},
			{"it is lost again, a moment before the first while is over", func() { clusters.Detach(session) }, 29 * time.Second, 1},
			{"nothing comes", func() {}, 2 * time.Second, 0},
		} {
			step.do()
			<-time.After(step.rest)
			synctest.Wait()
			if got := feeds.Stats().Subscribers; got != step.want {
				t.Errorf("after %s there are %d subscribers, want %d", step.name, got, step.want)
			}
		}
	})
}
