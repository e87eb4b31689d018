package syncserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/identity"
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
	gomega.NewWithT(t).Eventually(func() string { return s.keysPinned(t, "prod") }).
		WithTimeout(patience).Should(gomega.Equal(v1alpha1.ReasonKeysUnknown), "they are not flagged")
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

// hanging is a registry that does not answer about keys.
type hanging struct {
	syncserver.Registry
	asked chan struct{}   // takes one of each request
	over  <-chan struct{} // ends them; nil for their own deadlines alone
}

func (h *hanging) ReportKeys(ctx context.Context, _ string, _ v1alpha1.ClusterKeys) error {
	h.asked <- struct{}{}
	if h.over == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	<-h.over
	return nil
}

// Frames are heard and the session ends, however long the API server takes for keys.
func TestSession_EndsWhileItsKeysAreBeingRecorded(t *testing.T) {
	asked, over := make(chan struct{}, 1), make(chan struct{})
	defer close(over)
	s := newSite(t, func(c *syncserver.Config) { c.Registry = &hanging{c.Registry, asked, over} })
	a := s.open(t, "prod", time.Hour)
	a.hello()
	if err := a.stream.Send(keysFrame(spoketest.NewIssuer(t).Keys(t))); err != nil {
		t.Fatal(err)
	}
	<-asked
	if !a.send(inventory("shop/web@1"), 0) {
		t.Fatalf("the session is over before: %+v", a.verdict())
	}
	s.fleet.End("prod", &identity.Error{Reason: identity.ReasonSuspended})
	if got := a.verdict().Reason; got != identity.ReasonSuspended {
		t.Errorf("reason %s", got)
	}
}

func TestClock_KeysThatCannotBeRecordedAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := hubWith(&mirror{}, prod{}, func(r syncserver.Registry) syncserver.Registry { return &hanging{r, make(chan struct{}, 1), nil} })
		w, ended := openWire(t, server)
		go w.readAll()
		w.in <- helloFrame("v1", "")
		w.in <- keysFrame(&v1alpha1.ClusterKeys{Issuer: "i", JWKS: "{}"})
		<-time.After(6 * time.Second)
		if n := server.Ignored(); n != 1 {
			t.Errorf("%d reports are given up", n)
		}
		close(w.in)
		if got := verdictOf(<-ended); got != (spoketest.Verdict{}) {
			t.Errorf("verdict %+v", got)
		}
	})
}
