package syncserver_test

import (
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func keysFrame(keys *v1alpha1.ClusterKeys) *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Keys{Keys: &fleetv1.ClusterKeys{Issuer: keys.Issuer, Jwks: []byte(keys.JWKS)}}}
}

// keysPinned is the reason of the condition; empty for none.
func (s *site) keysPinned(t *testing.T, cluster string) string {
	t.Helper()
	c := &v1alpha1.SpokeCluster{}
	if err := s.kube.Get(t.Context(), client.ObjectKey{Name: cluster}, c); err != nil {
		t.Fatal(err)
	}
	if condition := apimeta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionKeysPinned); condition != nil {
		return condition.Reason
	}
	return ""
}

func TestSession_RecordsTheKeysOfItsClusterAlone(t *testing.T) {
	s := newSite(t, nil)
	a := s.open(t, "prod", time.Hour)
	a.hello()
	if !a.send(keysFrame(spoketest.NewIssuer(t).Keys(t)), 0) {
		t.Fatal("keys end the session")
	}
	if got := s.keysPinned(t, "prod"); got != v1alpha1.ReasonKeysUnknown {
		t.Errorf("reason %q, want them flagged", got)
	}
	if got := s.keysPinned(t, "dev"); got != "" {
		t.Errorf("another cluster has reason %q", got)
	}
}

// Keys that cannot be read, and more reports than a session is granted, are ignored
// and counted: neither is worth the session.
func TestSession_KeysThatCannotBeReadAreIgnored(t *testing.T) {
	s := newSite(t, nil)
	a := s.open(t, "prod", time.Hour)
	a.hello()
	if !a.send(keysFrame(&v1alpha1.ClusterKeys{Issuer: "i", JWKS: "{"}), 1) {
		t.Fatal("a text that is no key set ends the session")
	}
	keys := keysFrame(spoketest.NewIssuer(t).Keys(t))
	for _, ignored := range []int64{0, 0, 1, 1} {
		if !a.send(keys, ignored) {
			t.Fatal("reports end the session")
		}
	}
}
