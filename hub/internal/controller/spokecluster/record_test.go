package spokecluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
)

// The status may take a session for over that is held: the API server was away, or
// the agent's next session came to nothing.
func TestRecorder_ASessionThatIsHeldIsRecordedAgain(t *testing.T) {
	g, r := gomega.NewWithT(t), &rig{t: t, fleet: fleet.New(fleet.Config{}), feeds: feed.New(feed.Config{Wake: func(feed.Subscriber) {}}), mirrors: &mirrors{}}
	r.run()
	r.ready()
	c := acceptedCluster(t)
	held := connect(t, r.fleet, c.Name, openAt(t, c.Name, replica, "a"), "a")
	next := openAt(t, c.Name, "hub-1", "a")
	g.Expect(newRegistry().CloseSession(t.Context(), c.Name, next)).To(gomega.Succeed())
	g.Eventually(func() bool { return registry.Connected(statusOf(t, c.Name)) }).WithTimeout(patience).Should(gomega.BeTrue())
	session := statusOf(t, c.Name).Status.Session
	g.Expect(session.Hub).To(gomega.Equal(replica))
	g.Eventually(held.Epoch).WithTimeout(patience).Should(gomega.Equal(session.Epoch))
	g.Expect(held.Cause()).NotTo(gomega.HaveOccurred())
}

// stuck is a registry whose requests hang.
type stuck struct {
	spokecluster.Registry
	reached chan struct{}   // takes one of each request
	over    <-chan struct{} // ends them; nil for their own deadlines alone
}

func (s *stuck) ReopenSession(ctx context.Context, _ string, _ v1alpha1.SpokeSession) (int64, error) {
	s.reached <- struct{}{}
	if s.over == nil {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	<-s.over
	return 0, errors.New("not now")
}

// However many requests hang, and for how long: to end a session waits for none of them.
func TestReconciler_ASuspensionDoesNotWaitForRequestsThatHang(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	hanging := &stuck{reached: make(chan struct{}, 100), over: over}
	r := &rig{t: t, fleet: fleet.New(fleet.Config{}), feeds: feed.New(feed.Config{Wake: func(feed.Subscriber) {}}), mirrors: &mirrors{}, registry: hanging}
	r.run()
	r.ready()
	for range 10 { // more than are recorded at once
		name := strings.ToLower("spoke-" + rand.Text())
		connect(t, r.fleet, name, 1, "a")
		c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
		if err := hub.Client.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	<-hanging.reached
	c := acceptedCluster(t)
	session := connect(t, r.fleet, c.Name, 1, "a")
	before := c.DeepCopy()
	c.Spec.Suspend = true
	if err := hub.Client.Patch(t.Context(), c, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if got := r.ends(session); got != identity.ReasonSuspended {
		t.Errorf("reason %s", got)
	}
}

func TestRecorder_ARequestThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
		f := fleet.New(fleet.Config{})
		connect(t, f, c.Name, 1, "a")
		r := &spokecluster.Recorder{
			Hub: fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(c).Build(), Sessions: f,
			Registry: &stuck{reached: make(chan struct{}, 1)}, Replica: replica,
		}
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
	})
}
