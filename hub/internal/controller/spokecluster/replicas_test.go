package spokecluster_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

func acceptedCluster(t *testing.T) *v1alpha1.SpokeCluster {
	t.Helper()
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "spoke-"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	if err := hub.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func statusOf(t *testing.T, cluster string) *v1alpha1.SpokeCluster {
	t.Helper()
	c := &v1alpha1.SpokeCluster{}
	if err := hub.Client.Get(t.Context(), client.ObjectKey{Name: cluster}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Two replicas each with a manager, a fleet and a session of the cluster, the older of
// which its own agent has not closed yet.
func TestReplicas_ASuspensionEndsTheSessionsOfBoth(t *testing.T) {
	for name, act := range map[string]func(c *v1alpha1.SpokeCluster) error{
		"a cluster that is suspended": func(c *v1alpha1.SpokeCluster) error {
			before := c.DeepCopy()
			c.Spec.Suspend = true
			return hub.Client.Patch(t.Context(), c, client.MergeFrom(before))
		},
		"a cluster that is removed": func(c *v1alpha1.SpokeCluster) error { return hub.Client.Delete(t.Context(), c) },
	} {
		t.Run(name, func(t *testing.T) {
			c := acceptedCluster(t)
			var sessions []*fleet.Session
			var rigs []*rig
			for _, name := range []string{"hub-0", "hub-1"} {
				r := &rig{t: t, fleet: fleet.New(fleet.Config{}), feeds: feed.New(feed.Config{Wake: func(feed.Subscriber) {}}), mirrors: &mirrors{}}
				r.run()
				r.ready()
				sessions = append(sessions, connect(t, r.fleet, c.Name, openAt(t, c.Name, name, "a"), "a"))
				rigs = append(rigs, r)
			}
			for i, s := range sessions {
				if s.Cause() != nil {
					t.Fatalf("session %d is over before: %v", i, s.Cause())
				}
			}
			began := time.Now()
			if err := act(c); err != nil {
				t.Fatal(err)
			}
			for i, s := range sessions {
				reason := rigs[i].ends(s)
				t.Logf("replica %d ended its session after %s: %s", i, time.Since(began).Round(time.Millisecond), reason)
			}
		})
	}
}

// A session with another replica, by a newer epoch, ends the one here; the agent's own
// next session only when the agent forgets it.
func TestReplicas_ANewerSessionElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		newer string // the agent
		ends  bool
	}{
		"of another agent":  {"b", true},
		"of the same agent": {"a", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, fleet: fleet.New(fleet.Config{}), feeds: feed.New(feed.Config{Wake: func(feed.Subscriber) {}}), mirrors: &mirrors{}}
			c := acceptedCluster(t)
			here := connect(t, r.fleet, c.Name, openAt(t, c.Name, replica, "a"), "a")
			r.run()
			r.ready()
			openAt(t, c.Name, "hub-1", tc.newer)
			if !tc.ends {
				// What else it could do it has done once it did this.
				bystander, session := r.connect()
				_ = hub.Client.Delete(t.Context(), bystander)
				<-session.Ended()
				if here.Cause() != nil {
					t.Errorf("it ends the older session: %v", here.Cause())
				}
				return
			}
			select {
			case <-here.Ended():
			case <-time.After(patience):
				t.Fatal("the older session goes on")
			}
			if !errors.Is(here.Cause(), fleet.ErrSuperseded) {
				t.Errorf("cause %v", here.Cause())
			}
		})
	}
}

func TestReconciler_AnAgentMayHandOverForAMinute(t *testing.T) {
	f, c := fleet.New(fleet.Config{}), acceptedCluster(t)
	older := connect(t, f, c.Name, openAt(t, c.Name, replica, "a"), "a")
	r := &spokecluster.Reconciler{Hub: hub.Client, Sessions: f, Mirrors: &mirrors{}, Feeds: feed.New(feed.Config{}), Replica: replica}
	openedAt := func(at time.Time) ctrl.Result {
		reg := newRegistry()
		reg.Now = func() time.Time { return at }
		if _, err := reg.OpenSession(t.Context(), c.Name, v1alpha1.SpokeSession{Hub: "hub-1", Instance: "a"}); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if again := openedAt(time.Now()).RequeueAfter; older.Cause() != nil || again <= 0 || again > time.Minute {
		t.Errorf("it ends with %v, or is looked at again after %v", older.Cause(), again)
	}
	if openedAt(time.Now().Add(-time.Hour)); !errors.Is(older.Cause(), fleet.ErrSuperseded) {
		t.Errorf("a session that the agent forgot ends with %v", older.Cause())
	}
}
