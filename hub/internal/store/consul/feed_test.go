package consul_test

import (
	"context"
	"testing"
	"time"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/internal/testenv"
)

// TestClient_FeedsTheFleet takes a change from Consul to two subscribers: one
// fetch, and the change arrives without the interval having passed.
func TestClient_FeedsTheFleet(t *testing.T) {
	server := testenv.Consul(t, testenv.WithACL)
	writer := writer(t, server)
	const key = policy.Key("app/db.json")
	put(t, writer, key, `{"v":1}`)

	woken := make(chan feed.Subscriber, 16)
	feeds := feed.New(feed.Config{Wake: func(sub feed.Subscriber) { woken <- sub }})
	ctx, cancel := context.WithTimeout(t.Context(), storetest.Patience)
	ended := make(chan error)
	go func() { ended <- feeds.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	source := feed.Source{ID: "ClusterDynamicConfigClass/platform", Revision: "1", Open: func() (store.Reader, error) {
		return consul.New(consul.Config{Endpoint: server.Addr, Token: server.Token})
	}}
	east := feed.Subscriber{Cluster: "east", Namespace: "team", Name: "db"}
	west := feed.Subscriber{Cluster: "west", Namespace: "team", Name: "db"}
	// sees waits until both have the text; the interval is far longer than the test.
	sees := func(text string) {
		t.Helper()
		for {
			first := feeds.Subscribe(east, source, key, time.Hour)
			second := feeds.Subscribe(west, source, key, time.Hour)
			if first.Err != nil || second.Err != nil {
				t.Fatalf("errors %v, %v", first.Err, second.Err)
			}
			if first.Document != nil && first.Document == second.Document && string(first.Document.Text) == text {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s never arrived", text)
			case <-woken:
			}
		}
	}
	sees(`{"v":1}`)
	put(t, writer, key, `{"v":2}`)
	sees(`{"v":2}`)
	if got := feeds.Stats(); got.Fetches != 1 || got.Feeds != 1 || got.Subscribers != 2 {
		t.Errorf("stats %+v, want one fetch for both", got)
	}
}
