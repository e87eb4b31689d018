package replicas_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/replicas"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take, and an election with it.
const patience = 60 * time.Second

var leases coordinationclient.CoordinationV1Interface

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testenv.Main(m, func(c *testenv.Cluster) {
		leases = coordinationclient.NewForConfigOrDie(c.Config)
	}, testenv.WithoutControllers)
}

// run runs something until the returned function is called, which waits for its end.
func run(t *testing.T, do func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestLeader_AnotherFollowsWhenTheFirstLeaves(t *testing.T) {
	g := gomega.NewWithT(t)
	candidate := func() *replicas.Leader {
		l, err := replicas.NewLeader(leases, metav1.NamespaceDefault, "hub")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return l
	}
	first, second := candidate(), candidate()
	terms := make(chan bool, 8)
	second.OnLead(func(term context.Context) { terms <- term.Err() == nil && second.Leading() })
	endFirst := run(t, first.Run)
	g.Eventually(first.Leading).WithTimeout(patience).Should(gomega.BeTrue())
	endSecond := run(t, second.Run)
	defer endSecond()
	if second.Leading() {
		t.Error("there are two leaders")
	}
	endFirst()
	g.Eventually(first.Leading).WithTimeout(patience).Should(gomega.BeFalse())
	g.Eventually(second.Leading).WithTimeout(patience).Should(gomega.BeTrue())
	g.Eventually(terms).WithTimeout(patience).Should(gomega.Receive(gomega.BeTrue()))
}

func TestPresence_IsALeaseThatGoesWithItsReplica(t *testing.T) {
	g, client := gomega.NewWithT(t), leases.Leases(metav1.NamespaceDefault)
	end := run(t, replicas.NewPresence(client, "hub-a").Run)
	const name = "dynamic-config-hub-replica-hub-a"
	g.Eventually(func() error {
		_, err := client.Get(t.Context(), name, metav1.GetOptions{})
		return err
	}).WithTimeout(patience).Should(gomega.Succeed())
	end()
	_, err := client.Get(t.Context(), name, metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
}

// clock is set by hand.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// stopped has a replica that begins write its Lease once, without deleting it.
func stopped(t *testing.T, replica string) {
	t.Helper()
	renew(t, replica, presence(replica))
}

// presence is a process of a replica that will be killed.
func presence(replica string) *replicas.Presence {
	return replicas.NewPresence(undeletable{leases.Leases(metav1.NamespaceDefault)}, replica)
}

// renew has a process of a replica write its Lease once.
func renew(t *testing.T, replica string, p *replicas.Presence) {
	t.Helper()
	client, began := leases.Leases(metav1.NamespaceDefault), time.Now()
	end := run(t, p.Run)
	gomega.NewWithT(t).Eventually(func() bool {
		lease, err := client.Get(t.Context(), "dynamic-config-hub-replica-"+replica, metav1.GetOptions{})
		return err == nil && !lease.Spec.RenewTime.Time.Before(began.Truncate(time.Microsecond))
	}).WithTimeout(patience).Should(gomega.BeTrue())
	end()
}

// undeletable is what a replica has that is killed.
type undeletable struct {
	coordinationclient.LeaseInterface
}

func (undeletable) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }

func TestWatch_Over(t *testing.T) {
	stopped(t, "silent")
	opened := func(hub string, at time.Time) *v1alpha1.SpokeSession {
		return &v1alpha1.SpokeSession{Hub: hub, Epoch: 1, ConnectedAt: &metav1.Time{Time: at.Truncate(time.Second)}}
	}
	began := time.Now()
	c := &clock{began}
	w := replicas.NewWatch(leases.Leases(metav1.NamespaceDefault), c.now)
	look := func(after time.Duration) {
		t.Helper()
		c.Time = began.Add(after)
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look(0)
	look(20 * time.Second)
	for name, s := range map[string]*v1alpha1.SpokeSession{
		"a replica that was silent for two renewals":  opened("silent", began.Add(time.Second)),
		"a session that an earlier process may renew": opened("silent", began.Add(-time.Hour)),
		"a replica that had no time for its lease":    opened("unknown", began),
		"a session without a time":                    {Hub: "unknown"},
	} {
		if w.Over(s) {
			t.Errorf("%s: its session is taken for over", name)
		}
	}
	look(40 * time.Second)
	for name, s := range map[string]*v1alpha1.SpokeSession{
		"a replica that is silent":                    opened("silent", began.Add(time.Second)),
		"a replica that has no lease":                 opened("unknown", began),
		"a session of an earlier process of the name": opened("silent", began.Add(-time.Hour)),
	} {
		if !w.Over(s) {
			t.Errorf("%s: its session is believed", name)
		}
	}

	// It was silent, not dead. Its Lease has the machine's time, which is behind ours.
	stopped(t, "silent")
	look(10 * time.Minute)
	if w.Over(opened("silent", began.Add(599*time.Second))) {
		t.Error("a replica that came back is taken for dead")
	}
	if !w.Over(opened("silent", began.Add(-time.Hour))) {
		t.Error("a session of an earlier process is believed")
	}
	look(3 * time.Hour)
	look(3 * time.Hour)
	if _, err := leases.Leases(metav1.NamespaceDefault).Get(t.Context(), "dynamic-config-hub-replica-silent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lease of a replica that is gone for good stays: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		replica string
		ok      bool
	}{
		"a pod's name":            {"dynamic-config-hub-7c9f-x2k", true},
		"a host's name":           {"hub-1.example", true},
		"nothing":                 {"", false},
		"what no object can have": {"Hub_1", false},
	} {
		if err := replicas.Validate(tc.replica); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
