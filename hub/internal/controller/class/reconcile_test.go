package class_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/controller/class"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take.
const patience = 60 * time.Second

// lead is this replica's part in the election; it leads unless a test says otherwise.
var lead = &leader{}

type leader struct {
	follows atomic.Bool
	asked   atomic.Int64 // how often in vain
	mu      sync.Mutex   // guards begins
	begins  []func(context.Context)
}

func (l *leader) Leading() bool {
	if l.follows.Load() {
		l.asked.Add(1)
		return false
	}
	return true
}

func (l *leader) OnLead(begin func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begins = append(l.begins, begin)
}

func (l *leader) begin(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follows.Store(false)
	for _, begin := range l.begins {
		begin(ctx)
	}
}

// hub runs the controller for both kinds on a real API server. A class's store is in
// memory and fails while the class's credential is "bad".
var hub struct {
	client.Client
	opens sync.Map // class name to how often its store was opened
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testenv.Main(m, func(c *testenv.Cluster) {
		hub.Client = c.Client
		// A TestMain is a main; what starts here ends with the process.
		if err := start(context.Background(), c); err != nil {
			log.Fatal(err) // to return would count as success
		}
	}, testenv.WithoutControllers)
}

func start(ctx context.Context, c *testenv.Cluster) error {
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{Scheme: testenv.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	feeds := feed.New(feed.Config{Wake: func(feed.Subscriber) {}})
	resolver := &classes.Resolver{Objects: mgr.GetCache(), Secrets: classes.NewSecrets(mgr.GetCache(), mgr.GetAPIReader()), Open: open}
	for _, kind := range []v1alpha1.ClassKind{v1alpha1.ClassKindCluster, v1alpha1.ClassKindNamespaced} {
		r := &class.Reconciler{Kind: kind, Hub: mgr.GetCache(), Status: mgr.GetClient().Status(), Classes: resolver, Feeds: feeds, Leader: lead}
		if err := r.SetUp(mgr); err != nil {
			return err
		}
	}
	for _, run := range []func(context.Context) error{mgr.Start, feeds.Run} {
		go func() {
			if err := run(ctx); err != nil {
				log.Fatal(err)
			}
		}()
	}
	return nil
}

func open(c *classes.Class, cred classes.Credential) (store.Reader, error) {
	s := memory.New()
	if cred.Token == "bad" {
		s.Fail(&store.Error{Reason: v1alpha1.ReasonCredentialRejected, Op: "check"})
	}
	count, _ := hub.opens.LoadOrStore(c.Ref.Name, new(atomic.Int64))
	count.(*atomic.Int64).Add(1) //nolint:forcetypeassert // nothing else is put in
	return s, nil
}

// becomes waits until a class's Ready condition has a reason, for the generation the
// class has.
func becomes(t *testing.T, o client.Object, status *v1alpha1.ClassStatus, reason string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		g.Expect(hub.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
		ready := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		g.Expect(ready).NotTo(gomega.BeNil())
		g.Expect(ready.Reason).To(gomega.Equal(reason), "%s", ready.Message)
		g.Expect(ready.ObservedGeneration).To(gomega.Equal(o.GetGeneration()))
		g.Expect(status.ObservedGeneration).To(gomega.Equal(o.GetGeneration()))
	}).WithTimeout(patience).Should(gomega.Succeed())
}

func consulClass(name string, secret string) *v1alpha1.ClusterDynamicConfigClass {
	return &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "http://consul.example"},
			TokenSecret: &v1alpha1.SecretReference{Namespace: metav1.NamespaceDefault, Name: secret},
		},
	}
}

func credential(name, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		StringData: map[string]string{"token": token},
	}
}

func TestReady_FollowsTheCredentialAtOnce(t *testing.T) {
	g := gomega.NewWithT(t)
	c := consulClass("credential", "credential")
	g.Expect(hub.Create(t.Context(), c)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonCredentialNotFound)
	g.Expect(c.Status.Conditions[0].Message).To(gomega.ContainSubstring("secret default/credential"), "its owner is not told which")

	secret := credential("credential", "bad")
	g.Expect(hub.Create(t.Context(), secret)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonCredentialRejected)

	secret.StringData = map[string]string{"token": "good"}
	g.Expect(hub.Update(t.Context(), secret)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonClassReady)

	g.Expect(hub.Delete(t.Context(), secret)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonCredentialNotFound)
}

func TestReady_AnInvalidPatternIsTheClassOwners(t *testing.T) {
	g := gomega.NewWithT(t)
	c := &v1alpha1.DynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pattern"},
		Spec:       v1alpha1.DynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceKubernetes, Keys: []string{"a*"}}},
	}
	g.Expect(hub.Create(t.Context(), c)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonClassInvalid)

	c.Spec.Keys = []string{"a/*"}
	g.Expect(hub.Update(t.Context(), c)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonClassReady)
}

// busy is a store that has no room for a check.
type busy struct{}

func (busy) Check(context.Context, feed.Source) error {
	return fmt.Errorf(store.OpCheck+": %w", feed.ErrBusy)
}

func (busy) OnTurn(func(string)) {}

// A store that is busy with documents is not asked; the counts are written all the
// same, and what was known stays.
func TestReady_StaysWhileTheStoreIsBusy(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(hub.Create(t.Context(), credential("busy", "good"))).To(gomega.Succeed())
	c := consulClass("busy", "busy")
	g.Expect(hub.Create(t.Context(), c)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonClassReady)
	ready := c.Status.DeepCopy().Conditions
	g.Eventually(func() error {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		c.Status.Renders = nil
		return hub.Status().Update(t.Context(), c)
	}).WithTimeout(patience).Should(gomega.Succeed())

	r := &class.Reconciler{
		Kind: v1alpha1.ClassKindCluster, Hub: hub.Client, Status: hub.Status(), Feeds: busy{}, Leader: &leader{},
		Classes: &classes.Resolver{Objects: hub.Client, Secrets: classes.NewSecrets(hub.Client, hub.Client), Open: open},
	}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(result.RequeueAfter).To(gomega.BeNumerically(">", 0))
	g.Expect(hub.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
	g.Expect(c.Status.Renders).NotTo(gomega.BeNil())
	g.Expect(c.Status.Conditions).To(gomega.Equal(ready))
}

func TestRenders_AreSummedUpOverTheClusters(t *testing.T) {
	g := gomega.NewWithT(t)
	c := consulClass("summed", "summed")
	g.Expect(hub.Create(t.Context(), credential("summed", "good"))).To(gomega.Succeed())
	g.Expect(hub.Create(t.Context(), c)).To(gomega.Succeed())
	becomes(t, c, &c.Status, v1alpha1.ReasonClassReady)
	for i, name := range []string{"summed-a", "summed-b"} {
		spoke := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Expect(hub.Create(t.Context(), spoke)).To(gomega.Succeed())
		spoke.Status.Classes = []v1alpha1.ClassRenderCounts{
			{Class: "ClusterDynamicConfigClass/summed", RenderCounts: v1alpha1.RenderCounts{Total: 3, Ready: 2, Failed: int32(i)}},
			{Class: "DynamicConfigClass/default/summed", RenderCounts: v1alpha1.RenderCounts{Total: 9}},
		}
		g.Expect(hub.Status().Update(t.Context(), spoke)).To(gomega.Succeed())
	}
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(hub.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
		g.Expect(c.Status.Renders).To(gomega.HaveValue(gomega.Equal(v1alpha1.RenderCounts{Total: 6, Ready: 4, Failed: 1})))
	}).WithTimeout(patience).Should(gomega.Succeed())

	opened, ok := hub.opens.Load("summed")
	g.Expect(ok).To(gomega.BeTrue())
	g.Expect(opened.(*atomic.Int64).Load()).To(gomega.BeEquivalentTo(1), "counts that change ask the store again") //nolint:forcetypeassert // nothing else is put in
}

func TestReconcile_OnlyTheLeaderLooks(t *testing.T) {
	g := gomega.NewWithT(t)
	lead.follows.Store(true)
	defer lead.follows.Store(false)
	c := consulClass("followed", "followed")
	g.Expect(hub.Create(t.Context(), c)).To(gomega.Succeed())
	g.Eventually(lead.asked.Load).WithTimeout(patience).Should(gomega.BeNumerically(">", 0))
	g.Expect(hub.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
	g.Expect(c.Status.Conditions).To(gomega.BeEmpty())

	lead.begin(t.Context())
	becomes(t, c, &c.Status, v1alpha1.ReasonCredentialNotFound)
}
