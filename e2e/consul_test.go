package e2e_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// counter stands in front of Consul and counts what is asked for each key: first
// reads, and waits for the next version.
type counter struct {
	*httptest.Server
	mu           sync.Mutex
	reads, waits map[string]int
	refuses      atomic.Bool
}

// refuse lets the store answer nothing but 503 from now on, or lets it answer again.
// Requests under way are cut.
func (c *counter) refuse(yes bool) {
	c.refuses.Store(yes)
	if yes {
		c.CloseClientConnections()
	}
}

func countRequests(t *testing.T) *counter {
	t.Helper()
	upstream, err := url.Parse(consul.Addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	c := &counter{reads: map[string]int{}, waits: map[string]int{}}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		key := strings.TrimPrefix(r.URL.Path, "/v1/kv/")
		if index := r.URL.Query().Get("index"); index == "" || index == "0" {
			c.reads[key]++
		} else {
			c.waits[key]++
		}
		c.mu.Unlock()
		if c.refuses.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	listen(t, c.Server)
	t.Cleanup(func() {
		c.CloseClientConnections() // blocking queries are under way
		c.Close()
	})
	return c
}

// listen starts a server where the hub reaches it.
func listen(t *testing.T, server *httptest.Server) {
	t.Helper()
	if fleet.ListenHost != "" {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(fleet.ListenHost, "0"))
		if err != nil {
			t.Fatal(err)
		}
		server.Listener.Close()
		server.Listener = listener
	}
	server.Start()
}

func (c *counter) of(key string) (reads, waits int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads[key], c.waits[key]
}

// consulClass makes a class that reads Consul through a counter, with a token that
// may read below a prefix.
func consulClass(t *testing.T, name, prefix string, through *counter) *v1alpha1.ClusterDynamicConfigClass {
	t.Helper()
	token, err := consul.ReadToken(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	credential := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name + "-consul"},
		StringData: map[string]string{"token": token},
	}
	class := clusterClass(name, "", func(s *v1alpha1.ClusterDynamicConfigClassSpec) {
		s.Source, s.Kubernetes, s.Endpoint = v1alpha1.SourceConsul, nil, through.URL
		s.TokenSecret = &v1alpha1.SecretReference{Namespace: credential.Namespace, Name: credential.Name}
	})
	create(t, fleet.Hub.Cluster, credential, class)
	// The class goes with the test: its store does.
	t.Cleanup(func() { deleteAll(t, class, credential) })
	return class
}

func deleteAll(t *testing.T, objects ...client.Object) {
	t.Helper()
	remove(t, fleet.Hub.Cluster, objects...)
}

func putConsul(t *testing.T, key, value string) {
	t.Helper()
	if err := consul.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestConsul_AChangeArrivesWithoutWaitingForTheInterval(t *testing.T) {
	const key = "change/app.json"
	putConsul(t, key, `{"colour":"red"}`)
	consulClass(t, "change", "change/", countRequests(t))
	namespaces(t, "change")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("change", "change", key))
		holds(t, spoke, "change", "colour", "red")
	}
	began := time.Now()
	putConsul(t, key, `{"colour":"blue"}`)
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "change", "colour", "blue")
	}
	t.Logf("a change in Consul was in both spokes after %d ms; the interval is a day", time.Since(began).Milliseconds())
}

func TestConsul_OneDocumentForTwoClustersIsOneFetch(t *testing.T) {
	const key = "shared/app.json"
	putConsul(t, key, `{"colour":"red"}`)
	requests := countRequests(t)
	consulClass(t, "shared", "shared/", requests)
	for _, ns := range []string{"shared-a", "shared-b"} {
		namespaces(t, ns)
		for _, spoke := range fleet.Spokes {
			create(t, spoke.Cluster, render(ns, "shared", key))
		}
	}
	for _, ns := range []string{"shared-a", "shared-b"} {
		for _, spoke := range fleet.Spokes {
			holds(t, spoke, ns, "colour", "red")
		}
	}
	reads, waits := requests.of(key)
	t.Logf("four Renders in two clusters: %d read and %d blocking queries", reads, waits)
	// Each replica serves the clusters whose sessions it holds.
	if most := fleet.Hub.Serving(); reads < 1 || reads > most || waits > most {
		t.Errorf("%d reads and %d waits of one document, want at most one of a replica: %d", reads, waits, most)
	}
}

func TestConsul_AClassEditRendersAgainEverywhere(t *testing.T) {
	const key = "edit/app.json"
	putConsul(t, key, `{"colour":"red"}`)
	class := consulClass(t, "edit", "edit/", countRequests(t))
	namespaces(t, "edit")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("edit", "edit", key))
		holds(t, spoke, "edit", "colour", "red")
	}

	update(t, fleet.Hub.Cluster, class, func(c *v1alpha1.ClusterDynamicConfigClass) { c.Spec.Namespaces = []string{"others"} })
	for _, spoke := range fleet.Spokes {
		isReady(t, spoke, "edit", metav1.ConditionFalse, v1alpha1.ReasonClassNotAllowed)
		holds(t, spoke, "edit", "colour", "red") // losing access deletes nothing
	}
	putConsul(t, key, `{"colour":"blue"}`)
	update(t, fleet.Hub.Cluster, class, func(c *v1alpha1.ClusterDynamicConfigClass) { c.Spec.Namespaces = nil })
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "edit", "colour", "blue")
		isReady(t, spoke, "edit", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	}
}

func TestConsul_ARotatedCredentialIsTakenUp(t *testing.T) {
	const key = "rotate/app.json"
	putConsul(t, key, `{"colour":"red"}`)
	class := consulClass(t, "rotate", "elsewhere/", countRequests(t)) // a token that may not read the key
	namespaces(t, "rotate")
	east := fleet.Spoke("east")
	create(t, east.Cluster, render("rotate", "rotate", key))
	isReady(t, east, "rotate", metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)

	token, err := consul.ReadToken(t.Context(), "rotate/")
	if err != nil {
		t.Fatal(err)
	}
	credential := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: class.Spec.TokenSecret.Namespace, Name: class.Spec.TokenSecret.Name}}
	update(t, fleet.Hub.Cluster, credential, func(s *corev1.Secret) { s.Data["token"] = []byte(token) })
	holds(t, east, "rotate", "colour", "red")
	isReady(t, east, "rotate", metav1.ConditionTrue, v1alpha1.ReasonRendered)
}
