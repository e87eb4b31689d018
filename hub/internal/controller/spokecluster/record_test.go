package spokecluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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

// openedAgo records a session of a cluster with a replica, as if that was some time ago.
func openedAgo(t *testing.T, cluster, hubName string, ago time.Duration) int64 {
	t.Helper()
	r := newRegistry()
	r.Now = func() time.Time { return time.Now().Add(-ago) }
	epoch, err := r.OpenSession(t.Context(), cluster, v1alpha1.SpokeSession{Hub: hubName, Instance: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// The end of a session may not have been recorded, or its beginning alone. The replica
// that it names knows.
func TestRecorder_ASessionThatIsNotHeldIsOver(t *testing.T) {
	for name, tc := range map[string]struct {
		replica   string
		opened    time.Duration // so long ago
		began     time.Duration // this process, so long ago
		held      bool
		connected bool
		again     bool // it is looked at again, within a minute
	}{
		"one that this replica opened and does not hold": {replica: replica, opened: time.Hour, began: 2 * time.Hour},
		"one that it holds":                                  {replica: replica, opened: time.Hour, began: 2 * time.Hour, held: true, connected: true, again: true},
		"one that may be opening still":                      {replica: replica, began: 2 * time.Hour, connected: true, again: true},
		"one of an earlier process, whose spoke may be back": {replica: replica, opened: time.Hour, connected: true, again: true},
		"one of another replica":                             {replica: "hub-1", opened: time.Hour, began: 2 * time.Hour, connected: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := fleet.New(fleet.Config{}), acceptedCluster(t)
			epoch := openedAgo(t, c.Name, tc.replica, tc.opened)
			if tc.held {
				connect(t, f, c.Name, epoch, "a")
			}
			r := &spokecluster.Recorder{Hub: hub.Client, Sessions: f, Registry: newRegistry(), Replica: replica, Began: time.Now().Add(-tc.began)}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
			if err != nil {
				t.Fatal(err)
			}
			if got := registry.Connected(statusOf(t, c.Name)); got != tc.connected {
				t.Errorf("connected: %v", got)
			}
			if again := result.RequeueAfter; (again > 0) != tc.again || again > time.Minute {
				t.Errorf("it is looked at again after %v", again)
			}
		})
	}
}

// lossy has the API server write statuses whose answers are lost.
type lossy struct{ http.RoundTripper }

func (l lossy) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(req)
	if err == nil && req.Method == http.MethodPut {
		return nil, errors.Join(errors.New("the answer is lost"), answer.Body.Close())
	}
	return answer, err
}

// An agent's next session that came to nothing does not end the one that serves, although
// it looks like a newer one for ever.
func TestRecorder_AnOpeningOfUnknownOutcomeEndsNothing(t *testing.T) {
	f, c := fleet.New(fleet.Config{}), acceptedCluster(t)
	serving := connect(t, f, c.Name, openedAgo(t, c.Name, replica, 2*time.Hour), "a")
	config := rest.CopyConfig(hub.Config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return lossy{rt} })
	lost, err := testenv.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	next := &registry.Registry{Reader: lost, Status: lost.Status(), Now: func() time.Time { return time.Now().Add(-time.Hour) }}
	if _, err := next.OpenSession(t.Context(), c.Name, v1alpha1.SpokeSession{Hub: replica, Instance: "a"}); err == nil {
		t.Fatal("the answer is not lost")
	}
	if latest := statusOf(t, c.Name).Status.Session; latest.Epoch != 2 {
		t.Fatalf("the session is not recorded, the latest is %d", latest.Epoch)
	}
	ends := &spokecluster.Reconciler{Hub: hub.Client, Sessions: f, Mirrors: &mirrors{}, Feeds: feed.New(feed.Config{}), Replica: replica}
	records := &spokecluster.Recorder{Hub: hub.Client, Sessions: f, Registry: newRegistry(), Replica: replica}
	for _, r := range []reconcile.Reconciler{ends, records, ends, records} { // it is closed, then the other is recorded
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)}); err != nil {
			t.Fatal(err)
		}
	}
	latest := statusOf(t, c.Name)
	if serving.Cause() != nil || serving.Epoch() != 3 || !registry.Connected(latest) || latest.Status.Session.Epoch != 3 {
		t.Errorf("the session that serves ends with %v, has epoch %d, and the latest is %+v", serving.Cause(), serving.Epoch(), latest.Status.Session)
	}
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
