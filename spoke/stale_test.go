package spoke_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
)

func TestRun_AHubThatIsLostIsOneEventOfTheAgentAndTouchesNoTarget(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.StaleAfter = 50 * time.Millisecond })
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.render("other", into("other"))
	f.settled(r, 2)
	before := f.secret("target")

	f.hub.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.Unavailable, "Draining") })
	f.hub.Restart(t)
	lost := func() []corev1.ObjectReference {
		var events eventsv1.EventList
		f.must(cluster.Client.List(t.Context(), &events, client.InNamespace(f.namespace)))
		var about []corev1.ObjectReference
		for _, event := range events.Items {
			if event.Reason == v1alpha1.ReasonHubLost {
				about = append(about, event.Regarding)
			}
		}
		return about
	}
	f.Eventually(lost).Should(gomega.HaveLen(1))
	if about := lost()[0]; about.Kind != "Secret" || about.Name != "dynamic-config-spoke-identity" {
		t.Errorf("the event is about %v", about)
	}

	f.hub.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	f.store.Set("doc", "a", "2")
	f.holds("target", "a", "2")
	if len(lost()) != 1 {
		t.Errorf("want one event of the agent, got %d", len(lost()))
	}
	if now := f.secret("target"); now.UID != before.UID {
		t.Error("the target was made anew")
	}
}
