package registry_test

import (
	"errors"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
)

// clock is set by hand.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// openAs opens a session as an agent and returns its epoch.
func openAs(t *testing.T, r *registry.Registry, cluster, instance string) int64 {
	t.Helper()
	epoch, err := r.OpenSession(t.Context(), cluster, v1alpha1.SpokeSession{Hub: "hub-1", Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// Two agents of one cluster that take the session from each other are seen, and no
// longer once they calm.
func TestRegistry_AgentsThatAlternate(t *testing.T) {
	name, c := create(t, accepted), &clock{time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)}
	r := newRegistry(c.now)
	contested := func() bool {
		return apimeta.IsStatusConditionTrue(read(t, name).Status.Conditions, v1alpha1.ConditionContested)
	}
	for i, instance := range []string{"a", "b", "a", "b", "a"} {
		openAs(t, r, name, instance)
		if want := i >= 3; contested() != want {
			t.Errorf("after %d takeovers it is contested: %v", i, !want)
		}
		c.Time = c.Add(time.Minute)
	}
	if r.Takeovers() != 4 || len(read(t, name).Status.Takeovers) != v1alpha1.MaxTakeovers {
		t.Errorf("%d takeovers are counted, and %d kept", r.Takeovers(), len(read(t, name).Status.Takeovers))
	}

	before := c.Time
	c.Time = before.Add(6 * time.Minute) // the oldest of the last three was nine minutes ago
	if r.Due(read(t, name), 0) {
		t.Error("it calms too early")
	}
	c.Time = before.Add(8 * time.Minute)
	if !r.Due(read(t, name), 0) {
		t.Error("it does not calm")
	}
	if err := r.Look(t.Context(), name, 0); err != nil {
		t.Fatal(err)
	}
	if apimeta.FindStatusCondition(read(t, name).Status.Conditions, v1alpha1.ConditionContested) != nil {
		t.Error("the condition stays")
	}
}

func TestRegistry_OpenSession_WhatIsNoTakeover(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second string
		closed        bool
	}{
		"an agent that comes back":              {first: "a", second: "a"},
		"an agent whose predecessor is gone":    {first: "a", second: "b", closed: true},
		"an agent without a name":               {first: "a"},
		"an agent that follows one without one": {second: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, r := create(t, accepted), newRegistry(time.Now)
			epoch := openAs(t, r, cluster, tc.first)
			if tc.closed {
				if err := r.CloseSession(t.Context(), cluster, epoch); err != nil {
					t.Fatal(err)
				}
			}
			openAs(t, r, cluster, tc.second)
			if r.Takeovers() != 0 || len(read(t, cluster).Status.Takeovers) != 0 {
				t.Error("it counts as one")
			}
		})
	}
}

func TestRegistry_ReopenSession(t *testing.T) {
	cluster, r := create(t, accepted), newRegistry(time.Now)
	held := v1alpha1.SpokeSession{Hub: "hub-1", Instance: "a"}
	openAs(t, r, cluster, "a")
	if epoch, err := r.ReopenSession(t.Context(), cluster, held); err != nil || epoch != 0 {
		t.Errorf("a session that the status knows takes epoch %d, %v", epoch, err)
	}
	if err := r.Look(t.Context(), cluster, 1); err != nil {
		t.Fatal(err)
	}
	if registry.Connected(read(t, cluster)) {
		t.Fatal("a session that is known to be over is believed")
	}
	epoch, err := r.ReopenSession(t.Context(), cluster, held)
	if c := read(t, cluster); err != nil || epoch != 2 || c.Status.Session.Epoch != 2 || !registry.Connected(c) {
		t.Errorf("epoch %d, %v, status %+v", epoch, err, c.Status.Session)
	}
	suspended := create(t, v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true})
	_, err = r.ReopenSession(t.Context(), suspended, held)
	if got := reasonOf(t, err); got != identity.ReasonSuspended {
		t.Errorf("a suspended cluster: reason %q", got)
	}
}

// A session that opened since is not the one that was known to be over.
func TestRegistry_Look_LosesOneSessionAndNotTheNext(t *testing.T) {
	cluster, r := create(t, accepted), newRegistry(time.Now)
	openAs(t, r, cluster, "a")
	openAs(t, r, cluster, "a")
	if err := r.Look(t.Context(), cluster, 1); err != nil {
		t.Fatal(err)
	}
	if !registry.Connected(read(t, cluster)) {
		t.Error("the next session is taken for over")
	}
}

func TestRegistry_CheckSession(t *testing.T) {
	cluster, r := create(t, accepted), newRegistry(time.Now)
	openAs(t, r, cluster, "a")
	openAs(t, r, cluster, "b")
	suspended := create(t, v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true})
	for name, tc := range map[string]struct {
		cluster  string
		epoch    int64
		instance string
		want     string
	}{
		"the latest session goes on":                       {cluster, 2, "b", ""},
		"an older one of the same agent is its own matter": {cluster, 1, "b", ""},
		"an older one of another agent ends":               {cluster, 1, "a", identity.ReasonSuperseded},
		"an older one of an agent without a name ends":     {cluster, 1, "", identity.ReasonSuperseded},
		"one of a suspended cluster ends":                  {suspended, 1, "a", identity.ReasonSuspended},
		"one of a cluster that is gone ends":               {"nobody", 1, "a", identity.ReasonUnknownCluster},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasonOf(t, r.CheckSession(t.Context(), tc.cluster, tc.epoch, tc.instance)); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
		})
	}
}

// As by a replica that took it for lost. It would serve and count for nothing.
func TestRegistry_CheckSession_OneThatWasTakenForOverDoesNotGoOn(t *testing.T) {
	cluster, r := create(t, accepted), newRegistry(time.Now)
	epoch := openAs(t, r, cluster, "a")
	if err := r.CloseSession(t.Context(), cluster, epoch); err != nil {
		t.Fatal(err)
	}
	var refusal *identity.Error
	if err := r.CheckSession(t.Context(), cluster, epoch, "a"); err == nil || errors.As(err, &refusal) {
		t.Errorf("it ends with %v, want what is no verdict about the cluster", err)
	}
}

func TestSpokeCluster_AtMostThreeTakeoversAreKept(t *testing.T) {
	c := read(t, create(t, accepted))
	c.Status.Takeovers = make([]metav1.Time, v1alpha1.MaxTakeovers+1)
	for i := range c.Status.Takeovers {
		c.Status.Takeovers[i] = metav1.Now()
	}
	if err := hub.Client.Status().Update(t.Context(), c); err == nil {
		t.Error("the API takes more than the hub ever writes")
	}
}
