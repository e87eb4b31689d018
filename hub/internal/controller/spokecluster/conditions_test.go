package spokecluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/registry"
)

const replica = "hub-0"

func newRegistry() *registry.Registry {
	return &registry.Registry{Reader: hub.Client, Status: hub.Client.Status(), Now: time.Now}
}

// openAt records a session of a cluster with a replica.
func openAt(t *testing.T, cluster, hubName, instance string) int64 {
	t.Helper()
	epoch, err := newRegistry().OpenSession(t.Context(), cluster, v1alpha1.SpokeSession{Hub: hubName, Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// dead are the replicas whose sessions are over.
type dead map[string]bool

func (dead) Look(context.Context) error { return nil }

func (d dead) Over(s *v1alpha1.SpokeSession) bool { return d[s.Hub] }

// The conditions say what the spec says, also of a cluster that nobody connected yet,
// and a session that died with its hub is not believed for ever.
func TestKeeper_Conditions(t *testing.T) {
	accepted := v1alpha1.SpokeClusterSpec{Accepted: true}
	for name, tc := range map[string]struct {
		spec        v1alpha1.SpokeClusterSpec
		session     string // the replica it is with; none when empty
		ready, link string
	}{
		"a cluster that nobody accepted":                {ready: v1alpha1.ReasonNotAccepted, link: v1alpha1.ReasonDisconnected},
		"a cluster that is suspended":                   {spec: v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true}, ready: v1alpha1.ReasonSuspended, link: v1alpha1.ReasonDisconnected},
		"a cluster that never connected":                {spec: accepted, ready: v1alpha1.ReasonDisconnected, link: v1alpha1.ReasonDisconnected},
		"a cluster that is connected to a live replica": {spec: accepted, session: "hub-1", ready: v1alpha1.ReasonConnected, link: v1alpha1.ReasonConnected},
		"a cluster whose replica died":                  {spec: accepted, session: "hub-2", ready: v1alpha1.ReasonDisconnected, link: v1alpha1.ReasonDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: tc.spec}
			g.Expect(hub.Client.Create(t.Context(), c)).To(gomega.Succeed())
			if tc.session != "" {
				openAt(t, c.Name, tc.session, "a")
			}
			k := &spokecluster.Keeper{Hub: hub.Client, Registry: newRegistry(), Replicas: dead{"hub-2": true}}
			g.Expect(k.Look(t.Context())).To(gomega.Succeed())

			g.Expect(hub.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
			for kind, want := range map[string]string{v1alpha1.ConditionReady: tc.ready, v1alpha1.ConditionConnected: tc.link} {
				condition := apimeta.FindStatusCondition(c.Status.Conditions, kind)
				g.Expect(condition).NotTo(gomega.BeNil(), kind)
				g.Expect(condition.Reason).To(gomega.Equal(want), kind)
				g.Expect(condition.ObservedGeneration).To(gomega.Equal(c.Generation))
			}
			version := c.ResourceVersion
			g.Expect(k.Look(t.Context())).To(gomega.Succeed())
			g.Expect(hub.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(gomega.Succeed())
			g.Expect(c.ResourceVersion).To(gomega.Equal(version), "a second look wrote")
		})
	}
}

// part is a part in an election that a test decides.
type part struct{ leads atomic.Bool }

func (p *part) Leading() bool { return p.leads.Load() }

// blind does not get to see the leases.
type blind struct {
	dead
	looks atomic.Int32
}

func (b *blind) Look(context.Context) error {
	b.looks.Add(1)
	return errors.New("not now")
}

func TestKeeper_OnlyTheLeaderLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election, replicas := &part{}, &blind{}
		k := &spokecluster.Keeper{Leader: election, Replicas: replicas}
		if k.NeedLeaderElection() {
			t.Error("the manager would not start it")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Start(ctx) }()
		for _, step := range []struct {
			leads bool
			looks int32 // since the beginning
		}{{false, 0}, {true, 1}, {true, 2}, {false, 2}} {
			election.leads.Store(step.leads)
			<-time.After(5 * time.Second)
			synctest.Wait()
			if got := replicas.looks.Load(); got != step.looks {
				t.Errorf("%d looks, want %d", got, step.looks)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
