package vault_test

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
	"dynamic-config.rs/fleet/internal/testenv"
)

// runFeeds answers feeds that run until the test ends.
func runFeeds(t *testing.T) *feed.Feeds {
	t.Helper()
	feeds := feed.New(feed.Config{Wake: func(feed.Subscriber) {}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- feeds.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return feeds
}

// class is a source of a Vault with an AppRole.
func class(cfg vault.Config, limits feed.Limits) feed.Source {
	return feed.Source{ID: "ClusterDynamicConfigClass/platform", Revision: "1", Limits: limits, Open: func() (store.Reader, error) {
		return vault.New(cfg)
	}}
}

// fleet subscribes Renders to documents in turn, and waits until all have theirs.
func fleet(t *testing.T, feeds *feed.Feeds, source feed.Source, renders, documents int, interval time.Duration) {
	t.Helper()
	subscribe := func(n int) feed.Snapshot {
		sub := feed.Subscriber{Cluster: fmt.Sprint("cluster-", n%50), Namespace: "team", Name: fmt.Sprint(n)}
		return feeds.Subscribe(sub, source, policy.Key(fmt.Sprint("secret/app/", n%documents)), interval)
	}
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		for n := range renders {
			got := subscribe(n)
			g.Expect(got.Err).NotTo(gomega.HaveOccurred())
			g.Expect(got.Document).NotTo(gomega.BeNil())
		}
	}).WithTimeout(storetest.Patience).Should(gomega.Succeed())
}

// stocked is a Vault with documents, and the configuration of an AppRole that reads
// them through a front.
func stocked(t *testing.T, documents int) (server, *front, vault.Config) {
	t.Helper()
	server := start(t)
	for n := range documents {
		server.put(t, fmt.Sprint("app/", n), map[string]int{"n": n})
	}
	server.allow(t, "app", "app/")
	roleID, secretID := server.appRole(t, "app", nil)
	through := before(t, server.Addr)
	return server, through, vault.Config{
		Endpoint: through.URL, Credential: secretID, Login: &vault.Login{Mount: "approle", RoleID: roleID},
	}
}

func TestFeeds_TwoHundredRendersAtOnceAreOneLoginAndOneFetchEach(t *testing.T) {
	const documents = 5
	_, through, cfg := stocked(t, documents)
	feeds := runFeeds(t)
	fleet(t, feeds, class(cfg, feed.Limits{}), 200, documents, time.Hour)
	if got := through.count("login"); got != 1 {
		t.Errorf("%d logins, want 1", got)
	}
	if got := through.count("probe"); got != 1 {
		t.Errorf("%d probes, want 1", got)
	}
	if data, metadata := through.count("data"), through.count("metadata"); data != documents || metadata != 0 {
		t.Errorf("%d reads of data and %d of metadata, want %d and none", data, metadata, documents)
	}
}

func TestFeeds_AnIntervalCostsOneRequestOfMetadataForEachDocument(t *testing.T) {
	const renders, documents, intervals = 50 * 200, 20, 10
	server, through, cfg := stocked(t, documents)
	feeds := runFeeds(t)
	source := class(cfg, feed.Limits{RequestsPerSecond: 1000, Burst: 1000})
	fleet(t, feeds, source, renders, documents, time.Second)
	g := gomega.NewWithT(t)
	g.Eventually(func() uint64 { return feeds.Stats().Fetches }).WithTimeout(storetest.Patience).
		Should(gomega.BeNumerically(">=", documents*(1+intervals)))

	server.put(t, "app/7", map[string]int{"n": 77})
	g.Eventually(func() string {
		sub := feed.Subscriber{Cluster: "cluster-7", Namespace: "team", Name: "7"}
		return string(feeds.Subscribe(sub, source, "secret/app/7", time.Second).Document.Text)
	}).WithTimeout(storetest.Patience).Should(gomega.Equal(`{"n":77}`))

	fetches := feeds.Stats().Fetches
	data, metadata := through.count("data"), through.count("metadata")
	more := feeds.Stats().Fetches // counted meanwhile
	t.Logf("%d Renders on %d documents: %d polls, %d logins, %d probes, %d reads of metadata, %d of data",
		renders, documents, fetches, through.count("login"), through.count("probe"), metadata, data)
	if through.count("login") != 1 || through.count("probe") != 1 || through.count("renew") != 0 {
		t.Error("more than one login and one probe")
	}
	if data != documents+1 {
		t.Errorf("%d reads of data, want one for each version", data)
	}
	// One poll after the other, so the last of each document may be on its way.
	if least, most := int(fetches)-2*documents, int(more)-documents; metadata < least || metadata > most {
		t.Errorf("%d reads of metadata, want one for each poll: %d to %d", metadata, least, most)
	}
}

func TestFeeds_AStoreThatAsksForPatienceIsLeftAlone(t *testing.T) {
	var asked atomic.Int64
	server := faulty(t, "data", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3600")
		answer(w, http.StatusTooManyRequests, `{"errors":["`+canary+`"]}`)
	})
	feeds := runFeeds(t)
	source := class(vault.Config{Endpoint: server.URL, Credential: canary}, feed.Limits{Concurrency: 1})
	subscribe := func(n int) feed.Snapshot {
		sub := feed.Subscriber{Cluster: "east", Namespace: "team", Name: fmt.Sprint(n)}
		feeds.Refresh(sub, rand.Text())
		return feeds.Subscribe(sub, source, policy.Key(fmt.Sprint("secret/", n)), time.Second)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() int {
		told := 0
		for n := range 20 {
			if store.ReasonOf(subscribe(n).Err) == v1alpha1.ReasonStoreThrottled {
				told++
			}
		}
		return told
	}).WithTimeout(storetest.Patience).Should(gomega.Equal(1))
	g.Consistently(func() int64 {
		subscribe(7)
		return asked.Load()
	}, "2s").Should(gomega.BeEquivalentTo(1))
}

// secrets are the Secrets of the hub's cluster.
type secrets map[string]map[string][]byte

func (s secrets) Data(_ context.Context, namespace, name string) (map[string][]byte, error) {
	return s[namespace+"/"+name], nil
}

func TestFeeds_ARotatedCredentialEndsTheOldLogin(t *testing.T) {
	server, through, cfg := stocked(t, 1)
	object := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: "platform", UID: "1", Generation: 1},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceVault, Endpoint: through.URL},
			TokenSecret: &v1alpha1.SecretReference{Namespace: "platform", Name: "vault"},
		},
	}
	held := secrets{"platform/vault": {"token": []byte(cfg.Credential + "\n")}}
	resolver := &classes.Resolver{
		Objects: fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(object).Build(),
		Secrets: held,
		Open: func(_ *classes.Class, cred classes.Credential) (store.Reader, error) {
			return vault.New(vault.Config{Endpoint: through.URL, Credential: cred.Token, Login: cfg.Login})
		},
	}
	resolve := func() feed.Source {
		found, err := resolver.Find(t.Context(), classes.Ref{Kind: v1alpha1.ClassKindCluster, Name: "platform"})
		if err != nil {
			t.Fatal(err)
		}
		source, err := resolver.Source(t.Context(), found)
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	feeds := runFeeds(t)
	old := resolve()
	fleet(t, feeds, old, 1, 1, time.Hour)

	held["platform/vault"] = map[string][]byte{"token": []byte(server.secretID(t, "app"))}
	fresh := resolve()
	if fresh.Revision == old.Revision {
		t.Fatal("the rotated credential is no new revision")
	}
	fleet(t, feeds, fresh, 1, 1, time.Hour)
	used := through.used()
	if len(used) != 2 {
		t.Fatalf("documents were read with %d tokens, want 2", len(used))
	}
	gomega.NewWithT(t).Eventually(func() bool { return server.isValid(t, used[0]) }).
		WithTimeout(storetest.Patience).Should(gomega.BeFalse(), "the old login outlives its client")
	if !server.isValid(t, used[1]) || feeds.Stats().Sources != 1 {
		t.Errorf("the new token is valid: %t; %d sources", server.isValid(t, used[1]), feeds.Stats().Sources)
	}
}

func TestClient_TLS(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	secured := &front{counts: map[string]int{}}
	secured.Server = httptest.NewUnstartedServer(secured.handler(t, server.Addr))
	secured.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	secured.StartTLS()
	t.Cleanup(secured.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})
	cases := map[string]struct {
		cfg  vault.Config
		text string
	}{
		"the class's CA is trusted":        {vault.Config{TLS: link.TLS{CAPEM: ca}}, ""},
		"the server name is the class's":   {vault.Config{TLS: link.TLS{CAPEM: ca, ServerName: "example.com"}}, ""},
		"an unknown authority is refused":  {vault.Config{}, "the certificate is signed by an unknown authority"},
		"another server's name is refused": {vault.Config{TLS: link.TLS{CAPEM: ca, ServerName: "other"}}, "the certificate is for another name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Endpoint, tc.cfg.Credential = secured.URL, server.Token
			client := open(t, tc.cfg)
			if tc.text == "" {
				wantText(t, client, "secret/app/db", `{"a":"1"}`)
				return
			}
			_, err := client.Fetch(t.Context(), "secret/app/db")
			wantFailure(t, err, v1alpha1.ReasonStoreTLSFailed)
			if want := "fetch secret/app/db: " + tc.text; err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
		})
	}
	t.Run("a server without TLS is told apart", func(t *testing.T) {
		_, err := open(t, vault.Config{Endpoint: "https://" + server.Addr[len("http://"):], Credential: server.Token}).Fetch(t.Context(), "secret/a")
		wantFailure(t, err, v1alpha1.ReasonStoreTLSFailed)
	})
}
