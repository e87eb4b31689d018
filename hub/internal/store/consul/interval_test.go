package consul_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
)

// TestFeeds_AnIntervalCostsNoMoreThanOneRequestForEachDocument has fifty clusters with
// 200 Renders each follow twenty documents, of which one changes in each interval.
func TestFeeds_AnIntervalCostsNoMoreThanOneRequestForEachDocument(t *testing.T) {
	const clusters, rendersEach, documents, intervals = 50, 200, 20, 10
	f := startFleet(t, documents)
	f.woken = make(chan int, clusters*rendersEach*(1+intervals)) // nobody takes from it
	subscribe := func(n int) feed.Snapshot {
		sub := feed.Subscriber{Cluster: fmt.Sprint("cluster-", n%clusters), Namespace: "team", Name: fmt.Sprint(n)}
		return f.feeds.Subscribe(sub, f.source, f.keys[n%documents], time.Second)
	}
	g := gomega.NewWithT(t)
	// holds waits until all Renders of a document have what was written.
	holds := func(document int, what string) {
		t.Helper()
		g.Eventually(func(g gomega.Gomega) {
			for n := document; n < clusters*rendersEach; n += documents {
				got := subscribe(n)
				g.Expect(got.Err).NotTo(gomega.HaveOccurred())
				g.Expect(got.Document).NotTo(gomega.BeNil())
				g.Expect(string(got.Document.Text)).To(gomega.HavePrefix(what + " "))
			}
		}).WithTimeout(storetest.Patience).Should(gomega.Succeed())
	}
	start := f.measure(func() {
		for document := range documents {
			holds(document, "1")
		}
		f.quiet(t)
	})

	waits, requests := f.counted.waits.Load(), f.counted.requests.Load()
	interval := time.NewTicker(time.Second)
	defer interval.Stop()
	for n := range intervals {
		f.write(t, f.keys[n:n+1], "2")
		holds(n, "2")
		<-interval.C
	}
	f.quiet(t)
	waits = f.counted.waits.Load() - waits
	reads := f.counted.requests.Load() - requests - waits
	t.Logf("%d Renders on %d documents: %d requests until all are current and watched; in %d intervals with a change each %d reads and %d blocking queries",
		clusters*rendersEach, documents, start.requests, intervals, reads, waits)
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if got := f.feeds.Stats(); got.Fetches != documents || got.Feeds != documents || got.Failures != 0 {
		t.Errorf("stats %+v, want one fetch for each document: none is polled", got)
	}
	if start.requests > 3*documents {
		t.Errorf("%d requests at the start, want at most a fetch, a query and a reread for each document", start.requests)
	}
	if reads > documents*intervals {
		t.Errorf("%d reads in %d intervals, want at most one for each document", reads, intervals)
	}
	if waits > documents*intervals {
		t.Errorf("%d blocking queries in %d intervals, want at most one for each document", waits, intervals)
	}
}
