package mirror_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take.
const patience = 60 * time.Second

const classField = "class"

// rig is a provider under a real multicluster manager with one controller. There is
// no API server: the manager's own cluster is never asked.
type rig struct {
	t        *testing.T
	provider *mirror.Provider
	manager  mcmanager.Manager

	mu   sync.Mutex     // guards seen
	seen map[string]int // "cluster ns/name@generation", or "... gone", to reconciles
}

// withoutStart hides the provider's other methods from the manager.
type withoutStart struct{ multicluster.Provider }

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	m.Run()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	scheme := testenv.Scheme()
	r := &rig{t: t, provider: mirror.NewProvider(scheme), seen: map[string]int{}}
	var err error
	r.manager, err = mcmanager.New(&rest.Config{Host: "https://127.0.0.1:1"}, withoutStart{r.provider}, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (apimeta.RESTMapper, error) {
			return apimeta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion}), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = r.manager.GetFieldIndexer().IndexField(t.Context(), &v1alpha1.DynamicConfigRender{}, classField, func(o client.Object) []string {
		return []string{o.(*v1alpha1.DynamicConfigRender).Spec.Class} //nolint:forcetypeassert // only Renders are indexed
	})
	if err != nil {
		t.Fatal(err)
	}
	err = mcbuilder.ControllerManagedBy(r.manager).Named(t.Name()).For(&v1alpha1.DynamicConfigRender{}).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{NewQueue: mirror.NewFairQueue, NeedLeaderElection: new(false), SkipNameValidation: new(true)}).
		Complete(mcreconcile.Func(r.reconcile))
	if err != nil {
		t.Fatal(err)
	}
	r.run()
	return r
}

// run runs the manager and the provider until the test ends.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := r.manager.Start(ctx); err != nil {
			r.t.Error(err)
		}
	})
	group.Go(func() { _ = r.provider.Run(ctx, r.manager) }) // returns no error
	r.t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

func (r *rig) reconcile(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	what := req.ClusterName.String() + " " + req.NamespacedName.String()
	cl, err := r.manager.GetCluster(ctx, req.ClusterName)
	if err != nil {
		return ctrl.Result{}, err
	}
	render := &v1alpha1.DynamicConfigRender{}
	switch err := cl.GetClient().Get(ctx, req.NamespacedName, render); {
	case apierrors.IsNotFound(err):
		what += " gone"
	case err != nil:
		return ctrl.Result{}, err
	default:
		what += fmt.Sprintf("@%d", render.Generation)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[what]++
	return ctrl.Result{}, nil
}

func (r *rig) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[what]
}

// sees waits until something was reconciled so many times.
func (r *rig) sees(what string, times int) {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(func() int { return r.count(what) }).
		WithTimeout(patience).WithPolling(time.Millisecond).Should(gomega.BeNumerically(">=", times), what)
}

func (r *rig) replace(cluster string, renders ...*v1alpha1.DynamicConfigRender) {
	r.t.Helper()
	if err := r.provider.Replace(r.t.Context(), cluster, renders); err != nil {
		r.t.Fatal(err)
	}
}

func render(name, class string, generation int64) *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u-1", Generation: generation},
		Spec:       v1alpha1.DynamicConfigRenderSpec{Class: class, Key: "app.json"},
	}
}
