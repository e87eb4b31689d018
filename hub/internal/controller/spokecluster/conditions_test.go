package spokecluster_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/registry"
)

const replica = "hub-0"

func newRegistry() *registry.Registry {
	return &registry.Registry{Reader: hub.Client, Status: hub.Client.Status(), Now: time.Now}
}

// The conditions say what the spec says, also of a cluster that nobody connected yet,
// and a session that died with its hub is not believed for ever.
func TestReconciler_Conditions(t *testing.T) {
	open := func(hubName string) func(*testing.T, *v1alpha1.SpokeCluster) {
		return func(t *testing.T, c *v1alpha1.SpokeCluster) {
			t.Helper()
			if _, err := newRegistry().OpenSession(t.Context(), c.Name, v1alpha1.SpokeSession{Hub: hubName}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		spec      v1alpha1.SpokeClusterSpec
		before    func(*testing.T, *v1alpha1.SpokeCluster)
		connected bool // here
		uptime    time.Duration
		ready     string
		link      string
		again     bool // is looked at again
	}{
		"a cluster that nobody accepted":           {ready: v1alpha1.ReasonNotAccepted, link: v1alpha1.ReasonDisconnected},
		"a cluster that is suspended":              {spec: v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true}, ready: v1alpha1.ReasonSuspended, link: v1alpha1.ReasonDisconnected},
		"a cluster that never connected":           {spec: v1alpha1.SpokeClusterSpec{Accepted: true}, ready: v1alpha1.ReasonDisconnected, link: v1alpha1.ReasonDisconnected},
		"a cluster that is connected here":         {spec: v1alpha1.SpokeClusterSpec{Accepted: true}, before: open(replica), connected: true, uptime: time.Hour, ready: v1alpha1.ReasonConnected, link: v1alpha1.ReasonConnected},
		"a cluster that is connected to another":   {spec: v1alpha1.SpokeClusterSpec{Accepted: true}, before: open("hub-1"), uptime: time.Hour, ready: v1alpha1.ReasonConnected, link: v1alpha1.ReasonConnected},
		"a session of ours that may yet come back": {spec: v1alpha1.SpokeClusterSpec{Accepted: true}, before: open(replica), uptime: time.Second, ready: v1alpha1.ReasonConnected, link: v1alpha1.ReasonConnected, again: true},
		"a session of ours that died with the hub": {spec: v1alpha1.SpokeClusterSpec{Accepted: true}, before: aged, uptime: time.Hour, ready: v1alpha1.ReasonDisconnected, link: v1alpha1.ReasonDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			g, f := gomega.NewWithT(t), fleet.New(fleet.Config{})
			c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: tc.spec}
			g.Expect(hub.Client.Create(t.Context(), c)).To(gomega.Succeed())
			if tc.before != nil {
				tc.before(t, c)
			}
			if tc.connected {
				f.Connect(c.Name)
			}
			r := &spokecluster.Reconciler{
				Hub: hub.Client, Sessions: f, Mirrors: &mirrors{}, Feeds: feed.New(feed.Config{}),
				Registry: newRegistry(), Replica: replica, Started: time.Now().Add(-tc.uptime),
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(result.RequeueAfter > 0).To(gomega.Equal(tc.again))

			g.Expect(hub.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
			for kind, want := range map[string]string{v1alpha1.ConditionReady: tc.ready, v1alpha1.ConditionConnected: tc.link} {
				condition := apimeta.FindStatusCondition(c.Status.Conditions, kind)
				g.Expect(condition).NotTo(gomega.BeNil(), kind)
				g.Expect(condition.Reason).To(gomega.Equal(want), kind)
				g.Expect(condition.ObservedGeneration).To(gomega.Equal(c.Generation))
			}
			version := c.ResourceVersion
			_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(hub.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
			g.Expect(c.ResourceVersion).To(gomega.Equal(version), "a second look wrote")
		})
	}
}

// aged opens a session of this replica an hour ago.
func aged(t *testing.T, c *v1alpha1.SpokeCluster) {
	t.Helper()
	r := newRegistry()
	r.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	if _, err := r.OpenSession(t.Context(), c.Name, v1alpha1.SpokeSession{Hub: replica}); err != nil {
		t.Fatal(err)
	}
}
