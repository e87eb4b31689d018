package registry_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
)

var (
	hub *testenv.Cluster
	// brokenConfig leads to a port that nobody listens on.
	brokenConfig = rest.Config{Host: "https://127.0.0.1:1"}
)

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { hub = c }, testenv.WithoutControllers)
}

var accepted = v1alpha1.SpokeClusterSpec{Accepted: true}

// create makes a SpokeCluster of a name of its own.
func create(t *testing.T, spec v1alpha1.SpokeClusterSpec) string {
	t.Helper()
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: spec}
	if err := hub.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c.Name
}

func read(t *testing.T, name string) *v1alpha1.SpokeCluster {
	t.Helper()
	c := &v1alpha1.SpokeCluster{}
	if err := hub.Client.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func newRegistry(now func() time.Time) *registry.Registry {
	return &registry.Registry{Reader: hub.Client, Status: hub.Client.Status(), Now: now}
}

// reasonOf is the reason of a refusal, "" for none.
func reasonOf(t *testing.T, err error) string {
	t.Helper()
	var refusal *identity.Error
	if err != nil && !errors.As(err, &refusal) {
		t.Fatalf("error %v is no refusal", err)
	}
	if refusal == nil {
		return ""
	}
	return refusal.Reason
}

func TestRegistry_Check(t *testing.T) {
	going := create(t, accepted)
	c := read(t, going)
	c.Finalizers = []string{"test.example/hold"}
	if err := errors.Join(hub.Client.Update(t.Context(), c), hub.Client.Delete(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ cluster, want string }{
		"an accepted cluster is admitted":         {create(t, accepted), ""},
		"a cluster nobody accepted is not":        {create(t, v1alpha1.SpokeClusterSpec{}), identity.ReasonNotAccepted},
		"a suspended cluster is not":              {create(t, v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true}), identity.ReasonSuspended},
		"a cluster that is being removed is not":  {going, identity.ReasonUnknownCluster},
		"a cluster without a SpokeCluster is not": {"nobody", identity.ReasonUnknownCluster},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasonOf(t, newRegistry(time.Now).Check(t.Context(), tc.cluster)); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
			_, err := newRegistry(time.Now).OpenSession(t.Context(), tc.cluster, v1alpha1.SpokeSession{})
			if got := reasonOf(t, err); got != tc.want {
				t.Errorf("opening a session: reason %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRegistry_OpenSession_RecordsTheSession(t *testing.T) {
	g, name := gomega.NewWithT(t), create(t, accepted)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	epoch, err := newRegistry(func() time.Time { return now }).OpenSession(t.Context(), name, v1alpha1.SpokeSession{Hub: "hub-1", AgentVersion: "v1.2.3"})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(epoch).To(gomega.BeEquivalentTo(1))
	status := read(t, name).Status
	g.Expect(status.Session.Epoch).To(gomega.BeEquivalentTo(1))
	g.Expect(status.Session.Hub).To(gomega.Equal("hub-1"))
	g.Expect(status.Session.AgentVersion).To(gomega.Equal("v1.2.3"))
	g.Expect(status.Session.ConnectedAt.Time.UTC()).To(gomega.Equal(now))
	g.Expect(status.ObservedGeneration).To(gomega.BeEquivalentTo(1))
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionConnected} {
		condition := apimeta.FindStatusCondition(status.Conditions, kind)
		g.Expect(condition.Status).To(gomega.Equal(metav1.ConditionTrue), kind)
		g.Expect(condition.Reason).To(gomega.Equal(v1alpha1.ReasonConnected), kind)
		g.Expect(condition.ObservedGeneration).To(gomega.BeEquivalentTo(1), kind)
	}
}

func TestRegistry_OpenSession_EpochsGrow(t *testing.T) {
	name, r := create(t, accepted), newRegistry(time.Now)
	for want := int64(1); want <= 3; want++ {
		got, err := r.OpenSession(t.Context(), name, v1alpha1.SpokeSession{})
		if err != nil || got != want {
			t.Fatalf("epoch %d, %v; want %d", got, err, want)
		}
		if err := r.CloseSession(t.Context(), name, got); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRegistry_OpenSession_TogetherGetDifferentEpochs(t *testing.T) {
	name := create(t, accepted)
	const sessions = 6
	epochs, errs := make([]int64, sessions), make([]error, sessions)
	var group sync.WaitGroup
	for i := range sessions {
		group.Go(func() {
			epochs[i], errs[i] = newRegistry(time.Now).OpenSession(t.Context(), name, v1alpha1.SpokeSession{})
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	slices.Sort(epochs)
	if want := []int64{1, 2, 3, 4, 5, 6}; !slices.Equal(epochs, want) {
		t.Errorf("epochs %v, want %v", epochs, want)
	}
	if got := read(t, name).Status.Session.Epoch; got != sessions {
		t.Errorf("the recorded session is epoch %d, want the newest", got)
	}
}

func TestRegistry_CloseSession(t *testing.T) {
	g, name, r := gomega.NewWithT(t), create(t, accepted), newRegistry(time.Now)
	older, err := r.OpenSession(t.Context(), name, v1alpha1.SpokeSession{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	newer, err := r.OpenSession(t.Context(), name, v1alpha1.SpokeSession{})
	g.Expect(err).NotTo(gomega.HaveOccurred())

	before := read(t, name)
	g.Expect(r.CloseSession(t.Context(), name, older)).To(gomega.Succeed())
	g.Expect(read(t, name).ResourceVersion).To(gomega.Equal(before.ResourceVersion), "the close of an older session wrote")

	g.Expect(r.CloseSession(t.Context(), name, newer)).To(gomega.Succeed())
	closed := read(t, name)
	condition := apimeta.FindStatusCondition(closed.Status.Conditions, v1alpha1.ConditionConnected)
	g.Expect(condition.Status).To(gomega.Equal(metav1.ConditionFalse))
	g.Expect(condition.Reason).To(gomega.Equal(v1alpha1.ReasonDisconnected))
	g.Expect(closed.Status.Session.Epoch).To(gomega.Equal(newer), "the epoch must stay, or the next would repeat it")

	g.Expect(r.CloseSession(t.Context(), "nobody", 1)).To(gomega.Succeed(), "a cluster that was removed meanwhile")
}

func TestRegistry_Report(t *testing.T) {
	g, name, r := gomega.NewWithT(t), create(t, accepted), newRegistry(time.Now)
	counts := v1alpha1.RenderCounts{Total: 3, Ready: 2, Failed: 1}
	classes := []v1alpha1.ClassRenderCounts{{Class: "ClusterDynamicConfigClass/c", RenderCounts: counts}}
	g.Expect(r.Report(t.Context(), name, counts, classes)).To(gomega.Succeed())
	first := read(t, name)
	g.Expect(*first.Status.Renders).To(gomega.Equal(counts))

	g.Expect(r.Report(t.Context(), name, counts, classes)).To(gomega.Succeed())
	g.Expect(read(t, name).ResourceVersion).To(gomega.Equal(first.ResourceVersion), "equal counts wrote")

	counts.Ready++
	g.Expect(r.Report(t.Context(), name, counts, classes)).To(gomega.Succeed())
	g.Expect(*read(t, name).Status.Renders).To(gomega.Equal(counts))

	fresh := create(t, accepted)
	g.Expect(r.Report(t.Context(), fresh, v1alpha1.RenderCounts{}, nil)).To(gomega.Succeed())
	g.Expect(read(t, fresh).Status.Renders).NotTo(gomega.BeNil(), "no Renders is a count too")
	g.Expect(reasonOf(t, r.Report(t.Context(), "nobody", counts, nil))).To(gomega.Equal(identity.ReasonUnknownCluster))
}

func TestRegistry_AnAPIServerThatFailsIsNoRefusal(t *testing.T) {
	down, err := client.New(&brokenConfig, client.Options{Scheme: testenv.Scheme(), Mapper: hub.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	r := &registry.Registry{Reader: down, Status: down.Status(), Now: time.Now}
	_, opened := r.OpenSession(t.Context(), "prod", v1alpha1.SpokeSession{})
	for name, err := range map[string]error{
		"check": r.Check(t.Context(), "prod"), "open": opened, "close": r.CloseSession(t.Context(), "prod", 1),
		"report": r.Report(t.Context(), "prod", v1alpha1.RenderCounts{}, nil), "verify": r.Verify(t.Context(), "prod", registry.Proof{}),
		"join": r.Join(t.Context(), "prod", registry.Joining{}), "keys": r.ReportKeys(t.Context(), "prod", *spoketest.NewIssuer(t).Keys(t)),
	} {
		var refusal *identity.Error
		if err == nil || errors.As(err, &refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
