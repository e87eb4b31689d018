package render_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/controller/render"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take.
const patience = 60 * time.Second

// canary is in every document and credential, and must be in no message.
const canary = "canary-4711"

// hub is what every test of the package shares: a hub's controller, feeds and mirrors
// on a real API server, with stores in memory and an outbox that remembers. Tests keep
// apart by the names of their classes and clusters.
var hub struct {
	client     client.Client
	mirrors    *mirror.Provider
	feeds      *feed.Feeds
	outbox     *outbox
	stores     stores
	reconciler render.Reconciler
	leaked     atomic.Value // the first line of the log that held the canary
	audited    transcript
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(funcr.New(func(_, args string) {
		if strings.Contains(args, canary) {
			hub.leaked.CompareAndSwap(nil, args)
		}
	}, funcr.Options{Verbosity: 9}))
	testenv.Main(m, func(c *testenv.Cluster) {
		hub.client = c.Client
		// A TestMain is a main; what starts here ends with the process.
		if err := startHub(context.Background(), c); err != nil {
			log.Fatal(err) // to return would count as success
		}
	}, testenv.WithoutControllers)
}

// withoutStart hides the provider's other methods from the manager.
type withoutStart struct{ multicluster.Provider }

func startHub(ctx context.Context, c *testenv.Cluster) error {
	scheme := testenv.Scheme()
	hub.mirrors, hub.outbox = mirror.NewProvider(scheme), newOutbox()
	mgr, err := mcmanager.New(c.Config, withoutStart{hub.mirrors}, manager.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	wakes := &render.Wakes{}
	wakes.Wake(feed.Subscriber{}) // nobody to wake yet
	hub.feeds = feed.New(feed.Config{Wake: wakes.Wake})
	local := mgr.GetLocalManager()
	reconciler := &render.Reconciler{
		Clusters: hub.mirrors, Hub: local.GetCache(), Feeds: hub.feeds, Outbox: hub.outbox,
		Classes: &classes.Resolver{Objects: local.GetCache(), Secrets: classes.NewSecrets(local.GetCache(), local.GetAPIReader()), Open: hub.stores.open},
		Hasher:  fleet.NewHasher([]byte("0123456789abcdef0123456789abcdef")),
		Audit:   audit.New(&hub.audited),
	}
	hub.reconciler = *reconciler
	if err := reconciler.SetUp(ctx, mgr, wakes); err != nil {
		return err
	}
	for _, run := range []func(context.Context) error{
		mgr.Start, hub.feeds.Run, func(ctx context.Context) error { return hub.mirrors.Run(ctx, mgr) },
	} {
		go func() {
			if err := run(ctx); err != nil {
				log.Fatal(err)
			}
		}()
	}
	return nil
}

// stores are the stores in memory, by class; their zero value is empty.
type stores struct {
	byClass sync.Map // class name to *memory.Store
	tokens  sync.Map // class name to the token of the last open
}

func (s *stores) open(c *classes.Class, cred classes.Credential) (store.Reader, error) {
	s.tokens.Store(c.Ref.Name, cred.Token)
	found, ok := s.byClass.Load(c.Ref.Name)
	if !ok {
		return nil, fmt.Errorf("the test has no store for class %s", c.Ref)
	}
	return found.(*memory.Store), nil //nolint:forcetypeassert // nothing else is put in
}

// outbox remembers the answers of connected clusters.
type outbox struct {
	mu        sync.Mutex // guards what follows
	connected map[string]bool
	answers   map[string][]fleet.Answer // by "cluster namespace/name", in order
}

func newOutbox() *outbox {
	return &outbox{connected: map[string]bool{}, answers: map[string][]fleet.Answer{}}
}

func (o *outbox) Connected(cluster string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.connected[cluster]
}

func (o *outbox) connect(cluster string, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.connected[cluster] = is
}

func (o *outbox) Deliver(cluster string, id fleet.ID, a fleet.Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	render := cluster + " " + id.Namespace + "/" + id.Name
	o.answers[render] = append(o.answers[render], a)
}

// answer is the latest.
func (o *outbox) answer(cluster, render string) (fleet.Answer, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.answers[cluster+" "+render]
	if len(all) == 0 {
		return fleet.Answer{}, false
	}
	return all[len(all)-1], true
}

// first is the first answer that is so, whatever followed it.
func (o *outbox) first(cluster, render string, is func(fleet.Answer) bool) (fleet.Answer, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.answers[cluster+" "+render]
	if at := slices.IndexFunc(all, is); at >= 0 {
		return all[at], true
	}
	return fleet.Answer{}, false
}

// class makes a ClusterDynamicConfigClass with a store of its own.
func class(t *testing.T, edit func(*v1alpha1.ClusterDynamicConfigClass)) (*v1alpha1.ClusterDynamicConfigClass, *memory.Store) {
	t.Helper()
	c := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class-" + unique(t)},
		Spec:       v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "http://consul.example:8500"}},
	}
	if edit != nil {
		edit(c)
	}
	s := memory.New()
	hub.stores.byClass.Store(c.Name, s)
	create(t, c)
	known(t, c)
	return c, s
}

// known waits until the hub's cache holds an object. A session opens on what the cache
// says, so in a hub too no Render is decided about before its cluster is known.
func known(t *testing.T, o client.Object) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		return hub.reconciler.Hub.Get(t.Context(), client.ObjectKeyFromObject(o), o)
	}).WithTimeout(patience).WithPolling(5*time.Millisecond).Should(gomega.Succeed(), "the hub's cache does not hold it")
}

// unique makes a name of its own by way of a namespace, where Secrets can go too.
func unique(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
	create(t, ns)
	return ns.Name
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := hub.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, o client.Object) {
	t.Helper()
	if err := hub.client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// spoke is a connected cluster.
type spoke struct {
	t      *testing.T
	name   string
	object *v1alpha1.SpokeCluster
}

func newSpoke(t *testing.T) *spoke {
	t.Helper()
	o := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	create(t, o)
	known(t, o)
	s := &spoke{t: t, name: o.Name, object: o}
	hub.outbox.connect(s.name, true)
	t.Cleanup(func() {
		hub.outbox.connect(s.name, false)
		hub.feeds.ReleaseCluster(s.name)
		hub.mirrors.Forget(s.name)
	})
	return s
}

// says sets the inventory.
func (s *spoke) says(renders ...*v1alpha1.DynamicConfigRender) {
	s.t.Helper()
	if err := hub.mirrors.Replace(s.t.Context(), s.name, renders); err != nil {
		s.t.Fatal(err)
	}
}

// once waits for an answer to shop/web that is so, also where a look of another cause
// answered again since, and returns it.
func (s *spoke) once(what string, is func(fleet.Answer) bool) fleet.Answer {
	s.t.Helper()
	var found fleet.Answer
	gomega.NewWithT(s.t).Eventually(func() (ok bool) {
		found, ok = hub.outbox.first(s.name, "shop/web", is)
		return ok
	}).WithTimeout(patience).WithPolling(5*time.Millisecond).Should(gomega.BeTrue(), what)
	return found
}

// eventually waits for the latest answer to shop/web to be so, and returns it.
func (s *spoke) eventually(what string, is func(fleet.Answer) bool) fleet.Answer {
	s.t.Helper()
	var last fleet.Answer
	gomega.NewWithT(s.t).Eventually(func() bool {
		answer, ok := hub.outbox.answer(s.name, "shop/web")
		last = answer
		return ok && is(answer)
	}).WithTimeout(patience).WithPolling(5*time.Millisecond).Should(gomega.BeTrue(), func() string {
		return fmt.Sprintf("%s: the last answer is %+v, refusal %+v", what, last, last.Refusal)
	})
	if last.Refusal != nil && strings.Contains(last.Refusal.Message, canary) {
		s.t.Errorf("the message holds a value: %s", last.Refusal.Message)
	}
	if line := hub.leaked.Load(); line != nil {
		s.t.Errorf("the log holds a value: %s", line)
	}
	return last
}

// refused waits for a refusal with a reason of Ready and a cause, "" for none.
func (s *spoke) refused(ready, cause string) fleet.Answer {
	s.t.Helper()
	return s.eventually("refused with "+ready+" "+cause, func(a fleet.Answer) bool {
		return a.Content == nil && a.Refusal != nil && a.Refusal.ReadyReason == ready && a.Refusal.CauseReason == cause
	})
}

// has waits for content with a piece of text in its only file.
func (s *spoke) has(text string) fleet.Answer {
	s.t.Helper()
	return s.eventually("content with "+text, func(a fleet.Answer) bool {
		return a.Refusal == nil && a.Content != nil && strings.Contains(string(a.Content.Data["app.json"]), text)
	})
}

// web is a Render shop/web of a class.
func web(class string) *v1alpha1.DynamicConfigRender {
	interval := int32(1)
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1", Generation: 1},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: class, ClassKind: v1alpha1.ClassKindCluster, Key: "app.json", IntervalSeconds: &interval,
			Target: v1alpha1.RenderTarget{ConfigMap: "web", File: "app.json"},
		},
	}
}

// closes waits until nobody uses a store any more.
func closes(t *testing.T, s *memory.Store) {
	t.Helper()
	gomega.NewWithT(t).Eventually(s.Closed).WithTimeout(patience).Should(gomega.BeTrue(), "its feed is not released")
}
