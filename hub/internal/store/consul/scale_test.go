package consul_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/internal/testenv"
)

// documentBytes is the size of each document of the tests of scale.
const documentBytes = 1 << 10

// fleet follows many documents of one class, at the class's default limits and with
// an interval that no test sees the end of.
type fleet struct {
	server  *testenv.ConsulServer
	writer  *api.Client
	keys    []policy.Key
	source  feed.Source
	feeds   *feed.Feeds
	counted *counter
	woken   chan int
	stop    func() error
}

func startFleet(tb testing.TB, documents int) *fleet {
	tb.Helper()
	server := testenv.Consul(tb, testenv.WithACL)
	f := &fleet{server: server, writer: writer(tb, server), woken: make(chan int, documents)}
	for n := range documents {
		f.keys = append(f.keys, policy.Key(fmt.Sprintf("fleet/team-%02d/service-%04d.json", n%40, n)))
	}
	f.write(tb, f.keys, "1")
	f.counted = count(tb, server.Addr)
	f.source = feed.Source{ID: "class", Open: func() (store.Reader, error) {
		return consul.New(consul.Config{Endpoint: f.counted.url, Token: server.Token})
	}}
	f.feeds = feed.New(feed.Config{Wake: func(sub feed.Subscriber) {
		var n int
		_, _ = fmt.Sscan(sub.Name, &n)
		f.woken <- n
	}})
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error)
	go func() { ended <- f.feeds.Run(ctx) }()
	f.stop = func() error { cancel(); return <-ended }
	return f
}

// write writes documents in transactions.
func (f *fleet) write(tb testing.TB, keys []policy.Key, what string) {
	tb.Helper()
	noise := make([]byte, documentBytes/2-1) // an agent compresses what it can
	for len(keys) > 0 {
		n := min(len(keys), 64)
		var ops api.TxnOps
		for _, key := range keys[:n] {
			_, _ = rand.Read(noise)
			text := fmt.Appendf(nil, "%s %x", what, noise)
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: string(key), Value: text}})
		}
		if ok, _, _, err := f.writer.Txn().Txn(ops, nil); err != nil || !ok {
			tb.Fatalf("write: %t, %v", ok, err)
		}
		keys = keys[n:]
	}
}

func (f *fleet) subscribe(n int) feed.Snapshot {
	sub := feed.Subscriber{Cluster: "c", Namespace: "team", Name: fmt.Sprint(n)}
	return f.feeds.Subscribe(sub, f.source, f.keys[n], time.Hour)
}

// await waits until as many documents as there are in left hold what was written.
func (f *fleet) await(tb testing.TB, left map[int]bool, what string) {
	tb.Helper()
	timeout := time.NewTimer(2 * storetest.Patience)
	defer timeout.Stop()
	for len(left) > 0 {
		select {
		case n := <-f.woken:
			got := f.subscribe(n)
			if got.Err != nil {
				tb.Fatalf("document %d: %v", n, got.Err)
			}
			if strings.HasPrefix(string(got.Document.Text), what+" ") {
				delete(left, n)
			}
		case <-timeout.C:
			tb.Fatalf("%d documents are not current", len(left))
		}
	}
}

// all is every document.
func (f *fleet) all() map[int]bool {
	left := map[int]bool{}
	for n := range f.keys {
		left[n] = true
	}
	return left
}

// quiet waits until no request was sent for two seconds.
func (f *fleet) quiet(tb testing.TB) {
	tb.Helper()
	ticks := time.NewTicker(2 * time.Second)
	defer ticks.Stop()
	for last := int64(-1); last != f.counted.requests.Load(); {
		last = f.counted.requests.Load()
		select {
		case <-tb.Context().Done():
			tb.Fatal(tb.Context().Err())
		case <-ticks.C:
		}
	}
}

// counter stands before an agent and counts what one client asks of it.
type counter struct {
	url            string
	requests, sent atomic.Int64 // and bytes of answers
	waits          atomic.Int64 // requests that block until something changes

	// mu guards what follows.
	mu         sync.Mutex
	open, most int // connections
}

func count(tb testing.TB, agent string) *counter {
	tb.Helper()
	target, err := url.Parse(agent)
	if err != nil {
		tb.Fatal(err)
	}
	c := &counter{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 200}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // queries end when the test does
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Body = &counted{ReadCloser: r.Body, sent: &c.sent}
		return nil
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		if r.URL.Query().Has("index") {
			c.waits.Add(1)
		}
		body, err := io.ReadAll(r.Body) // the proxy would still read it while it answers
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	server.Config.ConnState = c.state
	server.Start()
	tb.Cleanup(func() {
		server.Close()
		proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	c.url = server.URL
	return c
}

func (c *counter) state(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open++
	case http.StateClosed, http.StateHijacked:
		c.open--
	case http.StateActive, http.StateIdle:
	}
	c.most = max(c.most, c.open)
}

func (c *counter) connections() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open, c.most
}

// counted counts the bytes of an answer.
type counted struct {
	io.ReadCloser

	sent *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sent.Add(int64(n))
	return n, err
}

// sockets counts the connections to the agent that the kernel knows of: those of the
// counter, and of the writer.
func (f *fleet) sockets(tb testing.TB) int {
	tb.Helper()
	agent, err := url.Parse(f.server.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	port, _ := strconv.Atoi(agent.Port())
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return -1 // not everywhere
	}
	// local address, remote address, state: 01 is established.
	return strings.Count(string(table), fmt.Sprintf(":%04X 01 ", port))
}

// spent are the costs of one phase.
type spent struct {
	requests, bytes int64
	took            time.Duration
}

func (f *fleet) measure(phase func()) spent {
	requests, bytes, start := f.counted.requests.Load(), f.counted.sent.Load(), time.Now()
	phase()
	return spent{f.counted.requests.Load() - requests, f.counted.sent.Load() - bytes, time.Since(start)}
}

func (s spent) String() string {
	return fmt.Sprintf("%s, %d requests, %d KiB", s.took.Round(time.Millisecond), s.requests, s.bytes>>10)
}

// costs are those of following a number of documents.
type costs struct {
	start, watch, change, idle spent
	now, most, sockets         int
}

func (f *fleet) costs(tb testing.TB, changes int, idle time.Duration) costs {
	tb.Helper()
	var c costs
	c.start = f.measure(func() {
		left := f.all()
		for n := range f.keys {
			if got := f.subscribe(n); got.Document != nil {
				delete(left, n)
			}
		}
		f.await(tb, left, "1")
	})
	c.watch = f.measure(func() { f.quiet(tb) })
	for n := range changes {
		at := n * (len(f.keys) - 1) / changes
		one := f.measure(func() {
			f.write(tb, f.keys[at:at+1], "2")
			f.await(tb, map[int]bool{at: true}, "2")
		})
		c.change.took = max(c.change.took, one.took)
		settled := f.measure(func() { f.quiet(tb) }) // the rest of the group
		c.change.requests = max(c.change.requests, one.requests+settled.requests)
		c.change.bytes = max(c.change.bytes, one.bytes+settled.bytes)
	}
	c.idle = f.measure(func() {
		select {
		case <-tb.Context().Done():
		case <-time.After(idle):
		}
	})
	c.now, c.most = f.counted.connections()
	c.sockets = f.sockets(tb)
	return c
}

func (c costs) log(tb testing.TB, documents int) {
	tb.Helper()
	tb.Logf("%d documents of %d bytes, 20 requests a second:", documents, documentBytes)
	tb.Logf("  until all are current: %s", c.start)
	tb.Logf("  until watched:         %s", c.watch)
	tb.Logf("  a change, at most:     %s", c.change)
	tb.Logf("  idle:                  %s", c.idle)
	tb.Logf("  connections: %d, at most %d; sockets at the agent %d", c.now, c.most, c.sockets)
}

// TestClient_FollowsManyKeys follows more keys than an agent takes connections, at the
// agent's and the class's default limits.
func TestClient_FollowsManyKeys(t *testing.T) {
	const documents = 2000
	f := startFleet(t, documents)
	c := f.costs(t, 2, 0)
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	c.log(t, documents)
	if c.most > 32 {
		t.Errorf("%d connections at once, want at most 32", c.most)
	}
	if got := f.feeds.Stats(); got.Fetches != documents || got.Failures != 0 {
		t.Errorf("stats %+v, want a fetch for each document: none is polled", got)
	}
	if all := c.start.requests + c.watch.requests; all > documents/10 {
		t.Errorf("%d requests until all were watched, want batches", all)
	}
}

// BenchmarkTenThousandKeys says what following so many keys costs; one round takes
// some two minutes.
func BenchmarkTenThousandKeys(b *testing.B) {
	for _, documents := range []int{10, 100, 1000, 10_000} {
		b.Run(strconv.Itoa(documents), func(b *testing.B) {
			for b.Loop() {
				f := startFleet(b, documents)
				c := f.costs(b, 10, time.Minute)
				if err := f.stop(); err != nil {
					b.Error(err)
				}
				c.log(b, documents)
				b.ReportMetric(c.start.took.Seconds(), "s/start")
				b.ReportMetric(c.change.took.Seconds(), "s/change")
				b.ReportMetric(float64(c.change.requests), "requests/change")
				b.ReportMetric(float64(c.idle.requests), "requests/min")
				b.ReportMetric(float64(c.most), "connections")
			}
		})
	}
}
