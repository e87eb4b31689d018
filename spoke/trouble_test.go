package spoke_test

import (
	"slices"
	"testing"

	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
)

// Why there is no session is seen without the agent's log: on a Render that waits for
// its first answer, and in an event of the agent. A Render that had an answer keeps it.
func TestRun_WhyThereIsNoSessionIsSeenWithoutTheLog(t *testing.T) {
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	answered := f.render("answered")
	f.settled(answered, 1)
	reject := func(reason string) {
		f.hub.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.PermissionDenied, reason) })
	}
	reject(identity.ReasonSuspended)
	f.hub.Restart(t)
	f.Eventually(f.troubles).Should(gomega.ConsistOf(identity.ReasonSuspended))

	waits := f.render("waits", into("other"))
	message := func() string {
		f.must(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(waits), waits))
		ready := apimeta.FindStatusCondition(waits.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			return ""
		}
		return ready.Message
	}
	f.Eventually(message).Should(gomega.Equal("Waiting for the hub's first answer: the hub refused this agent (Suspended)."))
	reject(identity.ReasonNotAccepted)
	f.Eventually(message).Should(gomega.Equal("Waiting for the hub's first answer: the hub refused this agent (NotAccepted)."))
	f.Eventually(f.troubles).Should(gomega.ConsistOf(identity.ReasonSuspended, identity.ReasonNotAccepted))
	f.status(answered, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)

	f.hub.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	f.status(waits, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
}

// troubles are the reasons of the events of the agent that name a refusal.
func (f *fixture) troubles() []string {
	var all eventsv1.EventList
	f.must(cluster.Client.List(f.Context(), &all, client.InNamespace(f.namespace)))
	var reasons []string
	for _, event := range all.Items {
		named := event.Regarding.Kind == "Secret" && event.Regarding.Name == "dynamic-config-spoke-identity"
		if named && slices.Contains([]string{identity.ReasonSuspended, identity.ReasonNotAccepted}, event.Reason) {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}
