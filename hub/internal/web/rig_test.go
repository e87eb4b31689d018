package web_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/hub/internal/web"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take.
const patience = 60 * time.Second

var (
	// roots are those that browsers trust.
	roots *x509.CertPool
	// issued is the certificate of every page, see certificate.
	issued *tls.Certificate
	issue  sync.Once
)

// certificate is that of every page: a browser is told once whom to trust.
func certificate(t *testing.T) *tls.Certificate {
	t.Helper()
	issue.Do(func() {
		ca := spoketest.Authority(t)
		var err error
		if issued, err = ca.SignServer([]string{"localhost", "127.0.0.1"}, time.Now()); err != nil {
			t.Fatal(err)
		}
		roots = ca.Roots()
	})
	return issued
}

// sessionLife is longer than a login holds.
const sessionLife = 31 * time.Minute

// canary is in every document that the rig delivers.
const canary = "canary-value-9d31"

// site is the page of a replica called hub-0 with a fleet behind it: real outboxes and
// mirrors, served over TLS, and users of a real API server. Its SpokeClusters and classes
// are in a store of its own.
type site struct {
	t        *testing.T
	url      string
	kube     client.Client
	fleet    *fleet.Fleet
	mirrors  *mirror.Provider
	audit    *transcript
	clock    *clock
	api      api
	stop     func() // the page
	sessions map[string]*fleet.Session
}

// clock is what the gate takes for the time: one that a test moves ahead, or stops.
type clock struct {
	ahead atomic.Int64
	stood atomic.Pointer[time.Time] // when it was stopped; nil while it goes
}

func (c *clock) now() time.Time {
	now := time.Now()
	if stood := c.stood.Load(); stood != nil {
		now = *stood
	}
	return now.Add(time.Duration(c.ahead.Load()))
}

func (c *clock) stop() {
	now := time.Now()
	c.stood.Store(&now)
}

func (c *clock) set(ahead time.Duration) { c.ahead.Store(int64(ahead)) }

func (c *clock) move(by time.Duration) { c.ahead.Add(int64(by)) }

// api is the hub's API server, which a test takes away.
type api struct {
	web.Creator
	down atomic.Bool
}

func (a *api) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if a.down.Load() {
		return errors.New("connection refused")
	}
	return a.Creator.Create(ctx, obj, opts...)
}

// engaged takes virtual clusters that no controller reads.
type engaged struct{}

func (engaged) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error {
	return nil
}

func newSite(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	scheme := testenv.Scheme()
	s := &site{
		t: t, api: api{Creator: hub.Client}, fleet: fleet.New(fleet.Config{}), mirrors: mirror.NewProvider(scheme), audit: &transcript{}, clock: &clock{},
		sessions: map[string]*fleet.Session{},
		kube:     fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
	}
	run(t, func(ctx context.Context) error { return s.mirrors.Run(ctx, engaged{}) })
	server := web.New(web.Config{
		Reader: &web.Reader{
			Hub: s.kube, Sessions: s.fleet, Mirrors: s.mirrors, Replica: "hub-0", CertificateLifetime: 24 * time.Hour,
			Certificates: func() map[string]time.Time {
				return map[string]time.Time{"prod-eu": time.Now().Add(11*time.Hour + time.Minute), "prod-us": time.Now().Add(3*time.Hour + 30*time.Second)}
			},
		},
		Reviews: &s.api, Audience: web.DefaultAudience, Now: s.clock.now, Audit: audit.New(lines{s.audit}),
	})
	s.serve(server)
	return s
}

// lines writes what an audit log says to a transcript.
type lines struct{ to *transcript }

func (l lines) Write(line []byte) (int, error) {
	l.to.add(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// run runs something until the test ends, or stop is called, which waits for it.
func run(t *testing.T, do func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (s *site) serve(server *web.Server) {
	s.t.Helper()
	served := certificate(s.t)
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.url = "https://localhost:" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	s.stop = run(s.t, func(ctx context.Context) error {
		return server.Serve(ctx, listener, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return served, nil })
	})
}

// connect has a cluster hold a session with an inventory of Renders.
func (s *site) connect(cluster string, renders ...*v1alpha1.DynamicConfigRender) {
	s.t.Helper()
	session, err := s.fleet.Connect(cluster, 1, "agent")
	if err != nil {
		s.t.Fatal(err)
	}
	var specs []fleet.Spec
	for _, r := range renders {
		class := v1alpha1.ClassID(r.Spec.EffectiveClassKind(), "", r.Spec.Class)
		specs = append(specs, fleet.Spec{ID: fleet.ID{Namespace: r.Namespace, Name: r.Name}, UID: "u", Generation: 1, Class: class, Suspended: r.Spec.Suspend})
	}
	session.Replace(specs)
	s.sessions[cluster] = session
	if err := s.mirrors.Replace(s.t.Context(), cluster, renders); err != nil {
		s.t.Fatal(err)
	}
}

// refuse has the hub refuse a Render.
func (s *site) refuse(cluster, name string, no fleet.Refusal) {
	s.t.Helper()
	s.fleet.Deliver(cluster, idOf(name), fleet.Answer{UID: "u", Generation: 1, Refusal: &no})
	s.next(cluster)
}

// deliver has the hub deliver a document to a Render; the cluster answers with a code,
// or not at all when it is 0.
func (s *site) deliver(cluster, name string, code fleet.Code, reason string) {
	s.t.Helper()
	s.fleet.Deliver(cluster, idOf(name), fleet.Answer{UID: "u", Generation: 1, Content: &fleet.Content{
		ID: []byte(name), SourceVersion: "42", Data: map[string][]byte{"password": []byte(canary)},
	}})
	frame := s.next(cluster)
	if code != 0 {
		s.sessions[cluster].Ack(fleet.Result{ID: frame.ID, Nonce: frame.Nonce, Code: code, Reason: reason})
	}
}

func (s *site) next(cluster string) fleet.Frame {
	s.t.Helper()
	frame, err := s.sessions[cluster].Next(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return frame
}

func idOf(name string) fleet.ID {
	namespace, name, _ := strings.Cut(name, "/")
	return fleet.ID{Namespace: namespace, Name: name}
}
