package spokecluster_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take.
const patience = 60 * time.Second

var hub *testenv.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testenv.Main(m, func(c *testenv.Cluster) { hub = c }, testenv.WithoutControllers)
}

// mirrors remembers what was forgotten.
type mirrors struct {
	mu        sync.Mutex // guards forgotten
	forgotten []string
}

func (m *mirrors) Forget(cluster string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten = append(m.forgotten, cluster)
}

func (m *mirrors) has(cluster string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.forgotten, cluster)
}

// connect opens a session with a replica.
func connect(t *testing.T, f *fleet.Fleet, cluster string, epoch int64, instance string) *fleet.Session {
	t.Helper()
	s, err := f.Connect(cluster, epoch, instance)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rig is the controllers under a manager, with a real fleet and real feeds.
type rig struct {
	t       *testing.T
	fleet   *fleet.Fleet
	feeds   *feed.Feeds
	mirrors *mirrors
	// registry records sessions; a real one when nil.
	registry spokecluster.Registry
}

func (r *rig) run() {
	r.t.Helper()
	mgr, err := manager.New(hub.Config, manager.Options{
		Scheme: testenv.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // a test may run more than once
	})
	if err != nil {
		r.t.Fatal(err)
	}
	reconciler := &spokecluster.Reconciler{Hub: mgr.GetCache(), Sessions: r.fleet, Mirrors: r.mirrors, Feeds: r.feeds, Replica: replica}
	recorder := &spokecluster.Recorder{
		Hub: mgr.GetCache(), Sessions: r.fleet, Registry: cmp.Or[spokecluster.Registry](r.registry, newRegistry()), Replica: replica,
	}
	if err := errors.Join(reconciler.SetUp(mgr), recorder.SetUp(mgr)); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

// ready waits until the controller watches: it ends the session of a cluster that
// nobody accepted.
func (r *rig) ready() {
	r.t.Helper()
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower("spoke-" + rand.Text())}}
	// The session first: the controller may be faster than we are.
	session := connect(r.t, r.fleet, c.Name, 1, "a")
	if err := hub.Client.Create(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
	gomega.NewWithT(r.t).Eventually(func() bool {
		return session.Cause() != nil
	}).WithTimeout(patience).Should(gomega.BeTrue(), "the controller does not watch")
}

// connect makes an accepted cluster with a session, whose one Render follows a
// document.
func (r *rig) connect() (*v1alpha1.SpokeCluster, *fleet.Session) {
	r.t.Helper()
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	if err := hub.Client.Create(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
	source := feed.Source{ID: "class/" + c.Name, Open: func() (store.Reader, error) { return memory.New(), nil }}
	r.feeds.Subscribe(feed.Subscriber{Cluster: c.Name, Namespace: "shop", Name: "web"}, source, "app.json", time.Minute)
	return c, connect(r.t, r.fleet, c.Name, 1, "a")
}

// ends waits for the reason that a session ends with.
func (r *rig) ends(s *fleet.Session) string {
	r.t.Helper()
	select {
	case <-s.Ended():
	case <-time.After(patience):
		r.t.Fatal("the session goes on")
	}
	var refusal *identity.Error
	if !errors.As(s.Cause(), &refusal) {
		r.t.Fatalf("cause %v is no refusal", s.Cause())
	}
	return refusal.Reason
}

func TestReconciler(t *testing.T) {
	r := &rig{t: t, fleet: fleet.New(fleet.Config{}), feeds: feed.New(feed.Config{Wake: func(feed.Subscriber) {}}), mirrors: &mirrors{}}
	r.run()
	r.ready()
	update := func(edit func(*v1alpha1.SpokeCluster)) func(*v1alpha1.SpokeCluster) error {
		return func(c *v1alpha1.SpokeCluster) error {
			before := c.DeepCopy()
			edit(c)
			// A patch: the controller writes the status meanwhile.
			return hub.Client.Patch(t.Context(), c, client.MergeFrom(before))
		}
	}
	for name, tc := range map[string]struct {
		act     func(*v1alpha1.SpokeCluster) error
		want    string
		forgets bool
	}{
		"a cluster that is suspended": {update(func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = true }), identity.ReasonSuspended, false},
		"a cluster that is no longer accepted": {
			update(func(c *v1alpha1.SpokeCluster) { c.Spec.Accepted = false }), identity.ReasonNotAccepted, false,
		},
		"a cluster that is removed": {
			func(c *v1alpha1.SpokeCluster) error { return hub.Client.Delete(t.Context(), c) }, identity.ReasonUnknownCluster, true,
		},
		"a cluster whose removal waits for somebody": {func(c *v1alpha1.SpokeCluster) error {
			hold := update(func(c *v1alpha1.SpokeCluster) { c.Finalizers = []string{"test.example/hold"} })
			return errors.Join(hold(c), hub.Client.Delete(t.Context(), c))
		}, identity.ReasonUnknownCluster, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c, session := r.connect()
			bystander, other := r.connect()
			if err := tc.act(c); err != nil {
				t.Fatal(err)
			}
			if got := r.ends(session); got != tc.want {
				t.Errorf("reason %s, want %s", got, tc.want)
			}
			// The bystander's feed is the one that is left.
			g.Eventually(func() int { return r.feeds.Stats().Subscribers }).WithTimeout(patience).Should(gomega.Equal(1))
			if tc.forgets {
				g.Eventually(func() bool { return r.mirrors.has(c.Name) }).WithTimeout(patience).Should(gomega.BeTrue())
			} else if r.mirrors.has(c.Name) {
				t.Error("its mirror is gone: the library never gives an engaged cluster back in full")
			}
			if other.Cause() != nil || r.mirrors.has(bystander.Name) {
				t.Errorf("a bystander is hit: %v", other.Cause())
			}
			r.feeds.ReleaseCluster(bystander.Name)
		})
	}
}

// What is written to the status of a cluster at every connect ends nothing, and costs
// nobody a look.
func TestReconciler_AnAcceptedClusterKeepsItsSession(t *testing.T) {
	f := fleet.New(fleet.Config{})
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	if err := hub.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	session := connect(t, f, c.Name, 1, "a")
	r := &spokecluster.Reconciler{Hub: hub.Client, Sessions: f, Mirrors: &mirrors{}, Feeds: feed.New(feed.Config{})}
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)}
	if _, err := r.Reconcile(t.Context(), req); err != nil || session.Cause() != nil {
		t.Errorf("error %v, cause %v", err, session.Cause())
	}
	r.Hub = failing{}
	if _, err := r.Reconcile(t.Context(), req); err == nil || session.Cause() != nil {
		t.Errorf("a read that fails: error %v, cause %v", err, session.Cause())
	}
}

// arrival opens a session while what its cluster has here is let go of.
type arrival struct {
	t       *testing.T
	fleet   *fleet.Fleet
	session *fleet.Session
}

func (a *arrival) Forget(string) {}

func (a *arrival) ReleaseCluster(cluster string) { a.session = connect(a.t, a.fleet, cluster, 1, "a") }

// A session that opens meanwhile would go on without its documents; ended, it comes
// back in full.
func TestReconciler_ASessionThatOpensMeanwhileIsEnded(t *testing.T) {
	refused := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}}
	if err := hub.Client.Create(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	for name, cluster := range map[string]string{
		"of a cluster that is not accepted": refused.Name, "of a cluster that was removed": "removed",
	} {
		t.Run(name, func(t *testing.T) {
			a := &arrival{t: t, fleet: fleet.New(fleet.Config{})}
			r := &spokecluster.Reconciler{Hub: hub.Client, Sessions: a.fleet, Mirrors: a, Feeds: a}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: cluster}}); err != nil {
				t.Fatal(err)
			}
			if a.session.Cause() == nil {
				t.Error("the session goes on")
			}
		})
	}
}

// failing is a cache that does not answer.
type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not now")
}
