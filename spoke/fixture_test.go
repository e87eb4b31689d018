package spoke_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/telemetry"
	"dynamic-config.rs/fleet/spoke"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
)

// patience is how long a test waits for what must come by itself, on a busy machine. What
// the agent tries again ever more rarely, and the garbage collector, take their time.
const patience = 90 * time.Second

// fixture is a namespace with an agent that keeps it, and the agent's hub.
type fixture struct {
	*testing.T
	*gomega.WithT
	namespace string
	hub       *hubtest.Hub
	store     *hubtest.Store
	logs      *lockedBuffer
	config    spoke.Config // what is not of every test
	stop      func()
}

// lockedBuffer is a buffer that goroutines may share.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// newFixture makes a namespace and starts the agent there, with the rights of an
// administrator unless configured otherwise.
func newFixture(t *testing.T, configure ...func(*fixture)) *fixture {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	if err := cluster.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: v1alpha1.DefaultSpokeServiceAccount}}
	if err := cluster.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		T: t, WithT: gomega.NewWithT(t), namespace: ns.Name, hub: hubtest.Start(t, hubtest.Settings{UnknownKeys: true}), logs: &lockedBuffer{},
	}
	f.SetDefaultEventuallyTimeout(patience)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	f.store = hubtest.Serve(t, f.hub)
	f.config = spoke.Config{REST: cluster.Config, Namespace: f.namespace, WatchNamespaces: []string{f.namespace}}
	for _, c := range configure {
		c(f)
	}
	f.start()
	return f
}

// start starts the agent; stop ends it.
func (f *fixture) start() {
	f.Helper()
	token := filepath.Join(f.TempDir(), "token")
	f.must(os.WriteFile(token, []byte(hubtest.Token), 0o600))
	log, _, err := telemetry.NewLogger(f.logs, telemetry.LogConfig{Level: "debug"})
	f.must(err)
	config := f.config
	config.HubAddress, config.HubCAFile, config.Cluster, config.JoinTokenFile = f.hub.Address, f.hub.CAFile, "east", token
	config.MetricsBindAddress, config.HealthProbeBindAddress, config.Version = "0", "0", "test"
	config.Backoff = spoke.Backoff{AfterSession: 10 * time.Millisecond, Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(f.Context(), log))
	ended := make(chan error, 1)
	go func() {
		ended <- spoke.Run(ctx, config)
	}()
	var once sync.Once
	f.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				f.Errorf("Run: %v", err)
			}
		})
	}
	f.Cleanup(f.stop)
}

// render creates a Render of key "doc" into the Secret "target".
func (f *fixture) render(name string, change ...func(*v1alpha1.DynamicConfigRender)) *v1alpha1.DynamicConfigRender {
	f.Helper()
	r := &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "store", Key: "doc",
			Target: v1alpha1.RenderTarget{Secret: "target", Shape: v1alpha1.ShapeEntries},
		},
	}
	for _, c := range change {
		c(r)
	}
	f.must(cluster.Client.Create(f.Context(), r))
	return r
}

// update changes a Render as it is now.
func (f *fixture) update(r *v1alpha1.DynamicConfigRender, change func(*v1alpha1.DynamicConfigRender)) {
	f.Helper()
	f.Eventually(func() error {
		if err := cluster.Client.Get(f.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		change(r)
		return cluster.Client.Update(f.Context(), r)
	}).Should(gomega.Succeed())
}

// status waits until a condition of a Render has a reason at its present
// generation, and returns the Render.
func (f *fixture) status(r *v1alpha1.DynamicConfigRender, condition, reason string) *v1alpha1.DynamicConfigRender {
	f.Helper()
	now := &v1alpha1.DynamicConfigRender{}
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(f.Context(), client.ObjectKeyFromObject(r), now)).To(gomega.Succeed())
		c := apimeta.FindStatusCondition(now.Status.Conditions, condition)
		g.Expect(c).NotTo(gomega.BeNil())
		g.Expect(c.Reason).To(gomega.Equal(reason), c.Message)
		g.Expect(c.ObservedGeneration).To(gomega.Equal(now.Generation))
	}).Should(gomega.Succeed())
	return now
}

// secret reads a Secret; nil when it is not there.
func (f *fixture) secret(name string) *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{}
	err := cluster.Client.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, secret)
	f.must(client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return secret
}

// holds waits until a Secret holds exactly these keys and values.
func (f *fixture) holds(name string, keysAndValues ...string) *corev1.Secret {
	f.Helper()
	want := map[string][]byte{}
	for i := 0; i < len(keysAndValues); i += 2 {
		want[keysAndValues[i]] = []byte(keysAndValues[i+1])
	}
	var secret *corev1.Secret
	f.Eventually(func() map[string][]byte {
		if secret = f.secret(name); secret == nil {
			return nil
		}
		return secret.Data
	}).Should(gomega.Equal(want))
	return secret
}

// settled waits until the hub knows that every Render's target is current, so
// that nothing is under way.
func (f *fixture) settled(r *v1alpha1.DynamicConfigRender, results int) {
	f.Helper()
	f.Eventually(func() int { return len(f.store.Results()) }).Should(gomega.BeNumerically(">=", results))
	f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}
