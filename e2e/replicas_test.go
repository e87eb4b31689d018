package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// spokeCluster is what the hub says of a spoke.
func spokeCluster(t *testing.T, name string) *v1alpha1.SpokeCluster {
	t.Helper()
	c := &v1alpha1.SpokeCluster{}
	if err := fleet.Hub.Client.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// holder is the replica that holds the session of a spoke, by the hub's word.
func holder(t *testing.T, name string) *stage.Replica {
	t.Helper()
	session := spokeCluster(t, name).Status.Session
	for _, r := range fleet.Hub.Replicas {
		if session != nil && r.Name == session.Hub {
			return r
		}
	}
	t.Fatalf("%s has no session with a replica: %v", name, session)
	return nil
}

// isWith waits until every spoke is connected, and to one of these replicas.
func isWith(t *testing.T, replicas ...*stage.Replica) {
	t.Helper()
	for _, spoke := range fleet.Spokes {
		gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
			c := spokeCluster(t, spoke.Name)
			g.Expect(apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionConnected)).To(gomega.BeTrue())
			g.Expect(slices.ContainsFunc(replicas, func(r *stage.Replica) bool { return r.Name == c.Status.Session.Hub })).To(gomega.BeTrue(), c.Status.Session.Hub)
		}).WithTimeout(patience).Should(gomega.Succeed(), "the session of %s", spoke.Name)
	}
}

// unapplied are the Renders of all spokes whose target does not hold their document, and
// why.
func unapplied(t *testing.T) (names []string) {
	t.Helper()
	for _, spoke := range fleet.Spokes {
		all := &v1alpha1.DynamicConfigRenderList{}
		if err := spoke.Client.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for _, r := range all.Items {
			for _, c := range r.Status.Conditions {
				if c.Status != metav1.ConditionTrue && c.Type != v1alpha1.ConditionStalled {
					names = append(names, spoke.Name+"/"+r.Namespace+"/"+r.Name+" "+c.Type+" "+c.Reason)
				}
			}
		}
	}
	return names
}

// without are the replicas but one.
func without(replicas []*stage.Replica, r *stage.Replica) []*stage.Replica {
	return slices.DeleteFunc(slices.Clone(replicas), func(other *stage.Replica) bool { return other == r })
}

// scale has n replicas run until the test ends; those that are started get the flags.
func scale(t *testing.T, n int, flags ...string) []*stage.Replica {
	t.Helper()
	if err := fleet.Hub.Scale(t.Context(), n, flags...); err != nil {
		t.Fatal(err)
	}
	return fleet.Hub.Replicas[:n]
}

// toOneReplica ends what a test with several replicas started.
func toOneReplica(t *testing.T) {
	t.Helper()
	isWith(t, scale(t, 1)...)
}

// fault takes a replica away from the spokes, and brings it back.
type fault struct {
	strike, heal func(*testing.T, *stage.Replica)
	// silent says that the replica lives on.
	silent bool
}

var faults = map[string]fault{
	"killed": {
		strike: func(_ *testing.T, r *stage.Replica) { r.Kill() },
		heal:   start,
	},
	"drained": {
		strike: func(t *testing.T, r *stage.Replica) {
			t.Helper()
			if err := r.Terminate(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		heal: start,
	},
	"partitioned": {
		strike: func(_ *testing.T, r *stage.Replica) { fleet.Hub.Proxy.Silence(r.Address, true) },
		heal:   func(_ *testing.T, r *stage.Replica) { fleet.Hub.Proxy.Silence(r.Address, false) },
		silent: true,
	},
}

func start(t *testing.T, r *stage.Replica) {
	t.Helper()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Whatever takes a replica away, its spokes go to another one and miss nothing: what
// did not change is neither sent nor written again.
func TestReplicas_AnyOfThemMayGo(t *testing.T) {
	quiet, moving := "replicas/quiet.json", "replicas/moving.json"
	putConsul(t, quiet, `{"colour":"red"}`)
	putConsul(t, moving, `{"colour":"red"}`)
	consulClass(t, "replicas", "replicas/", countRequests(t))
	namespaces(t, "replicas-quiet")
	namespaces(t, "replicas-moving")
	versions := map[string]string{}
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("replicas-quiet", "replicas", quiet), render("replicas-moving", "replicas", moving))
		versions[spoke.Name] = holds(t, spoke, "replicas-quiet", "colour", "red").ResourceVersion
		holds(t, spoke, "replicas-moving", "colour", "red")
		isReady(t, spoke, "replicas-moving", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	}
	defer toOneReplica(t)
	round := 0
	for _, n := range []int{2, 3} {
		for name, f := range faults {
			t.Run(fmt.Sprintf("one of %d is %s", n, name), func(t *testing.T) {
				round++
				colour := fmt.Sprintf("colour %d", round)
				all := scale(t, n)
				isWith(t, all...)
				gone := holder(t, "east")
				left := without(all, gone)
				deliveries := func() (sum int) {
					for _, r := range left {
						sum += metric(t, r, "dynamicconfig_hub_deliveries_total")
					}
					return sum
				}
				before, began := deliveries(), time.Now()

				// A load balancer sees in time what a spoke cannot know.
				fleet.Hub.Route(left...)
				f.strike(t, gone)
				isWith(t, left...)
				t.Logf("the sessions of %s moved after %s", gone.Name, time.Since(began).Round(time.Millisecond))
				putConsul(t, moving, `{"colour":"`+colour+`"}`)
				for _, spoke := range fleet.Spokes {
					holds(t, spoke, "replicas-moving", "colour", colour)
					isReady(t, spoke, "replicas-quiet", metav1.ConditionTrue, v1alpha1.ReasonRendered)
					secret, err := target(t.Context(), spoke, "replicas-quiet")
					if err != nil {
						t.Fatal(err)
					}
					if secret.ResourceVersion != versions[spoke.Name] {
						t.Errorf("%s: the target of a document that did not change was written again", spoke.Name)
					}
				}
				if got := deliveries() - before; got != len(fleet.Spokes) {
					t.Errorf("%d deliveries, want one of the document that changed to each spoke; not applied: %v", got, unapplied(t))
				}

				f.heal(t, gone)
				if f.silent {
					gomega.NewWithT(t).Eventually(func() int { return metric(t, gone, "dynamicconfig_hub_sessions") }).
						WithTimeout(patience).Should(gomega.BeZero(), "the replica does not let the sessions go")
				}
			})
		}
	}
}

// The spokes are suspended while each is with a replica of its own.
func TestReplicas_ASuspensionReachesAllOfThem(t *testing.T) {
	all := scale(t, 2)
	defer toOneReplica(t)
	g := gomega.NewWithT(t)
	suspend := func(name string, suspended bool) {
		t.Helper()
		update(t, fleet.Hub.Cluster, &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
			func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = suspended })
	}
	sessions := func() (sum int) {
		for _, r := range all {
			sum += metric(t, r, "dynamicconfig_hub_sessions")
		}
		return sum
	}
	isWith(t, all...)
	suspend("west", true)
	g.Eventually(sessions).WithTimeout(patience).Should(gomega.Equal(1))
	fleet.Hub.Route(without(all, holder(t, "east"))...)
	suspend("west", false)
	g.Eventually(sessions).WithTimeout(patience).Should(gomega.Equal(2))
	if holder(t, "east") == holder(t, "west") {
		t.Fatal("both spokes are with one replica")
	}

	began := time.Now()
	suspend("east", true)
	suspend("west", true)
	g.Eventually(sessions).WithTimeout(patience).WithPolling(10 * time.Millisecond).Should(gomega.BeZero())
	t.Logf("the sessions with both replicas ended after %s", time.Since(began).Round(time.Millisecond))
	suspend("east", false)
	suspend("west", false)
}

// A replica that dies while its spoke is away leaves a session that nobody will close:
// the leader does.
func TestReplicas_ASessionThatDiedWithItsReplicaIsNotBelieved(t *testing.T) {
	all := scale(t, 2)
	defer toOneReplica(t)
	isWith(t, all...)
	gone := holder(t, "east")
	east := fleet.Spoke("east")
	fleet.Hub.Route(without(all, gone)...)
	fleet.Hub.Proxy.Silence(gone.Address, true) // so that the agent's end is not heard of
	east.Kill()
	gone.Kill()
	fleet.Hub.Proxy.Silence(gone.Address, false)
	began := time.Now()
	gomega.NewWithT(t).Eventually(func() bool { _, connected := epoch(t, "east"); return connected }).
		WithTimeout(2 * patience).Should(gomega.BeFalse())
	t.Logf("the session of a dead replica was taken for over after %s", time.Since(began).Round(time.Second))
	if err := east.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	isWith(t, without(all, gone)...)
}

// Two agents with one identity: each may have the session for a while, nothing is
// written for it, and a person is told.
func TestReplicas_TwoAgentsOfOneClusterAreSeen(t *testing.T) {
	all := scale(t, 2)
	defer toOneReplica(t)
	isWith(t, all...)
	key := "twins/app.json"
	putConsul(t, key, `{"colour":"red"}`)
	consulClass(t, "twins", "twins/", countRequests(t))
	namespaces(t, "twins")
	east := fleet.Spoke("east")
	create(t, east.Cluster, render("twins", "twins", key))
	before := holds(t, east, "twins", "colour", "red").ResourceVersion

	twin := east.Twin()
	defer twin.Kill()
	if err := twin.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() bool {
		return apimeta.IsStatusConditionTrue(spokeCluster(t, "east").Status.Conditions, v1alpha1.ConditionContested)
	}).WithTimeout(2 * patience).Should(gomega.BeTrue())
	takeovers := 0
	for _, r := range all {
		takeovers += metric(t, r, "dynamicconfig_hub_session_takeovers_total")
	}
	// The condition may count one of before this test; a process that is gone counts no more.
	if takeovers == 0 {
		t.Error("no takeover is counted")
	}
	if after := holds(t, east, "twins", "colour", "red").ResourceVersion; after != before {
		t.Error("the target was written again")
	}
	twin.Kill()
	putConsul(t, key, `{"colour":"blue"}`)
	holds(t, east, "twins", "colour", "blue")
}
