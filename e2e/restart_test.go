package e2e_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// epoch is the epoch of a spoke's latest session, and whether it is connected.
func epoch(t *testing.T, name string) (epoch int64, connected bool) {
	t.Helper()
	c := &v1alpha1.SpokeCluster{}
	if err := fleet.Hub.Client.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
		t.Fatal(err)
	}
	if c.Status.Session != nil {
		epoch = c.Status.Session.Epoch
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == v1alpha1.ConditionConnected {
			connected = condition.Status == metav1.ConditionTrue
		}
	}
	return epoch, connected
}

// epochs are those of the latest sessions of all spokes.
func epochs(t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, spoke := range fleet.Spokes {
		all[spoke.Name], _ = epoch(t, spoke.Name)
	}
	return all
}

// reconnected waits until every spoke has a session later than an epoch: that of a hub
// that was killed is said to be there for a while.
func reconnected(t *testing.T, before map[string]int64) {
	t.Helper()
	for _, spoke := range fleet.Spokes {
		gomega.NewWithT(t).Eventually(func() bool { now, connected := epoch(t, spoke.Name); return connected && now > before[spoke.Name] }).
			WithTimeout(patience).Should(gomega.BeTrue(), "the session of %s is no new one", spoke.Name)
	}
}

// A hub that is killed and comes back finds every target as it left it, and writes
// none. That everything was looked at again is seen by a document that changed
// while it was away.
func TestRestart_AKilledHubWritesNoTargetAgain(t *testing.T) {
	quiet, moving := "restart/quiet.json", "restart/moving.json"
	putConsul(t, quiet, `{"colour":"red"}`)
	putConsul(t, moving, `{"colour":"red"}`)
	consulClass(t, "restart", "restart/", countRequests(t))
	before := map[string]*corev1.Secret{}
	statuses := map[string]string{}
	namespaces(t, "restart-quiet")
	namespaces(t, "restart-moving")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("restart-quiet", "restart", quiet), render("restart-moving", "restart", moving))
		before[spoke.Name] = holds(t, spoke, "restart-quiet", "colour", "red")
		holds(t, spoke, "restart-moving", "colour", "red")
		statuses[spoke.Name] = isReady(t, spoke, "restart-quiet", metav1.ConditionTrue, v1alpha1.ReasonRendered).ResourceVersion
		isReady(t, spoke, "restart-moving", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	}

	sessions := epochs(t)
	fleet.Hub.Kill()
	putConsul(t, moving, `{"colour":"blue"}`)
	if err := fleet.Hub.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	reconnected(t, sessions)
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "restart-moving", "colour", "blue")
		after, err := target(t.Context(), spoke, "restart-quiet")
		if err != nil {
			t.Fatal(err)
		}
		if after.ResourceVersion != before[spoke.Name].ResourceVersion {
			t.Errorf("%s: the target of a document that did not change was written again", spoke.Name)
		}
		if status := isReady(t, spoke, "restart-quiet", metav1.ConditionTrue, v1alpha1.ReasonRendered).ResourceVersion; status != statuses[spoke.Name] {
			t.Errorf("%s: the status of a Render whose document did not change was written again", spoke.Name)
		}
	}
}

func TestSuspension_ClosesTheSessionAndKeepsTheTargets(t *testing.T) {
	const key = "suspend/app.json"
	putConsul(t, key, `{"colour":"red"}`)
	consulClass(t, "suspend", "suspend/", countRequests(t))
	east, west := fleet.Spoke("east"), fleet.Spoke("west")
	namespaces(t, "suspend")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("suspend", "suspend", key))
		holds(t, spoke, "suspend", "colour", "red")
	}

	cluster := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: west.Name}}
	update(t, fleet.Hub.Cluster, cluster, func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = true })
	g := gomega.NewWithT(t)
	g.Eventually(func() bool { _, connected := epoch(t, west.Name); return connected }).WithTimeout(patience).Should(gomega.BeFalse())
	putConsul(t, key, `{"colour":"blue"}`)
	holds(t, east, "suspend", "colour", "blue") // so the hub has it
	holds(t, west, "suspend", "colour", "red")

	update(t, fleet.Hub.Cluster, cluster, func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = false })
	holds(t, west, "suspend", "colour", "blue")
}
