package consul

import (
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul/mux"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/internal/testenv"
)

// TestClient_AtAFollower asks a server that does not lead, with its leader and without.
func TestClient_AtAFollower(t *testing.T) {
	leader := testenv.Consul(t)
	follower := testenv.Consul(t, testenv.Following(leader))
	g := gomega.NewWithT(t)
	g.Expect(leader.Put(t.Context(), "app/db", "one")).To(gomega.Succeed())
	client, err := New(Config{Endpoint: follower.Addr})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { client.Close() })

	doc, err := client.Fetch(t.Context(), "app/db")
	g.Expect(err).NotTo(gomega.HaveOccurred(), "a read sees what the leader just wrote")
	changed := make(chan string, 1)
	go func() {
		if doc, err := client.Watch(t.Context(), "app/db", doc.Version); err == nil {
			changed <- string(doc.Text)
		}
	}()
	g.Expect(leader.Put(t.Context(), "app/db", "two")).To(gomega.Succeed())
	g.Eventually(changed).WithTimeout(storetest.Patience).Should(gomega.Receive(gomega.Equal("two")))

	// A question from an index of the past is answered at once.
	past := mux.Query{Prefix: "app/", After: indexOf(t, doc)}
	index, err := client.requests.Index(t.Context(), past)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(index).To(gomega.BeNumerically(">", past.After))

	g.Expect(leader.Pause()).To(gomega.Succeed())
	t.Cleanup(func() { _ = leader.Resume() })
	// The follower answers for itself, and soon that it has lost the leader.
	g.Eventually(func() error {
		_, err := client.requests.Index(t.Context(), past)
		return err
	}).WithTimeout(storetest.Patience).WithPolling(100 * time.Millisecond).Should(gomega.MatchError(mux.ErrLags))
	_, err = client.requests.Index(t.Context(), mux.Query{Prefix: "app/"})
	g.Expect(store.ReasonOf(err)).To(gomega.BeElementOf(v1alpha1.ReasonStoreUnreachable, v1alpha1.ReasonStoreTimeout))
	_, err = client.Fetch(t.Context(), "app/db")
	g.Expect(store.ReasonOf(err)).To(gomega.BeElementOf(v1alpha1.ReasonStoreUnreachable, v1alpha1.ReasonStoreTimeout),
		"what a follower holds is no document")

	g.Expect(leader.Resume()).To(gomega.Succeed())
	g.Eventually(func() error {
		_, err := client.requests.Index(t.Context(), past)
		return err
	}).WithTimeout(storetest.Patience).Should(gomega.Succeed())
}

func indexOf(t *testing.T, doc *store.Document) (index uint64) {
	t.Helper()
	index, err := strconv.ParseUint(doc.Version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return index
}
