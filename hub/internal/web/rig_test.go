package web_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// clock is what the gate takes for the time: one that a test moves ahead.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

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

// browser is a client that keeps cookies and follows nothing.
func (s *site) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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

// renderOf is a Render that wants a Secret of a cluster class.
func renderOf(name, class, key string) *v1alpha1.DynamicConfigRender {
	id := idOf(name)
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "u", Generation: 1},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: class, ClassKind: v1alpha1.ClassKindCluster, Key: key,
			Target: v1alpha1.RenderTarget{Secret: id.Name + "-config", File: "app.yaml"},
		},
	}
}

// spokeCluster is accepted, with a status.
func spokeCluster(name string, change func(*v1alpha1.SpokeCluster)) *v1alpha1.SpokeCluster {
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	change(c)
	return c
}

// with sets what a status says of a session and of Renders.
func with(replica string, ready metav1.ConditionStatus, reason string, since time.Duration, counts v1alpha1.RenderCounts) func(*v1alpha1.SpokeCluster) {
	return func(c *v1alpha1.SpokeCluster) {
		at := metav1.NewTime(time.Now().Add(-since))
		if replica != "" {
			c.Status.Session = &v1alpha1.SpokeSession{Hub: replica, ConnectedAt: &at, AgentVersion: "v1.4.0"}
			c.Status.Renders = &counts
		}
		connected := metav1.ConditionFalse
		if ready == metav1.ConditionTrue {
			connected = metav1.ConditionTrue
		}
		c.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, LastTransitionTime: at},
			{Type: v1alpha1.ConditionConnected, Status: connected, Reason: reason, LastTransitionTime: at},
		}
	}
}

func class(name string, source v1alpha1.Source, ready metav1.ConditionStatus, reason, message string) *v1alpha1.ClusterDynamicConfigClass {
	return &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: source}},
		Status: v1alpha1.ClassStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Now().Add(-7 * time.Minute)),
		}}},
	}
}

// newFleet is a site with a fleet in which about everything is the matter.
func newFleet(t *testing.T) *site {
	t.Helper()
	const vault = "vault"
	s := newSite(t,
		spokeCluster("prod-eu", with("hub-0", metav1.ConditionTrue, v1alpha1.ReasonConnected, 17*time.Minute, v1alpha1.RenderCounts{Total: 6, Ready: 1, Failed: 4})),
		spokeCluster("prod-us", with("hub-0", metav1.ConditionTrue, v1alpha1.ReasonConnected, 24*time.Minute, v1alpha1.RenderCounts{Total: 2, Ready: 2})),
		spokeCluster("prod-ap", with("hub-1", metav1.ConditionTrue, v1alpha1.ReasonConnected, 19*time.Minute, v1alpha1.RenderCounts{Total: 40, Ready: 40})),
		spokeCluster("edge-07", with("hub-1", metav1.ConditionFalse, v1alpha1.ReasonDisconnected, 3*time.Hour, v1alpha1.RenderCounts{Total: 3, Ready: 2, Failed: 1})),
		spokeCluster("staging", func(c *v1alpha1.SpokeCluster) {
			with("", metav1.ConditionFalse, v1alpha1.ReasonSuspended, 50*time.Hour, v1alpha1.RenderCounts{})(c)
			c.Spec.Suspend = true
		}),
		class("shared", v1alpha1.SourceConsul, metav1.ConditionTrue, v1alpha1.ReasonClassReady, ""),
		class(vault, v1alpha1.SourceVault, metav1.ConditionFalse, v1alpha1.ReasonStoreSealed, "the store is sealed"),
	)
	suspended := renderOf("shop/suspended", "shared", "shop/app.yaml")
	suspended.Spec.Suspend = true
	s.connect("prod-eu",
		renderOf("shop/web", "shared", "shop/web.yaml"), renderOf("shop/payments", vault, "shop/payments.json"),
		renderOf("shop/orders", vault, "shop/orders.json"), renderOf("billing/api", "shared", "billing/api.yaml"),
		renderOf("billing/worker", "shared", "billing/worker.yaml"), suspended,
	)
	s.deliver("prod-eu", "shop/web", fleet.Applied, "")
	for _, name := range []string{"shop/payments", "shop/orders"} {
		s.refuse("prod-eu", name, fleet.Refusal{
			ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched, CauseReason: v1alpha1.ReasonStoreSealed,
			Message: "ClusterDynamicConfigClass/vault: fetch " + name + ".json: the store is sealed",
		})
	}
	s.refuse("prod-eu", "billing/api", fleet.Refusal{ReadyReason: v1alpha1.ReasonClassNotAllowed, Message: "no namespace selector of the class selects billing"})
	s.deliver("prod-eu", "billing/worker", fleet.Failed, v1alpha1.ReasonQuotaExceeded)
	s.connect("prod-us", renderOf("shop/web", "shared", "shop/web.yaml"), renderOf("shop/cart", "shared", "shop/cart.yaml"))
	s.deliver("prod-us", "shop/web", fleet.Applied, "")
	s.deliver("prod-us", "shop/cart", 0, "")
	return s
}

// viewer makes a ServiceAccount that may see the page, and returns a token of it.
func viewer(t *testing.T, name string) string {
	t.Helper()
	create(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"dynamic-config.rs"}, Resources: []string{"spokeclusters/renders"}, Verbs: []string{"get"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
		})
	return token(t, name, web.DefaultAudience)
}

// token makes a ServiceAccount, unless it is there, and returns a token of it.
func token(t *testing.T, name string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	create(t, account)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := hub.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := hub.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}
