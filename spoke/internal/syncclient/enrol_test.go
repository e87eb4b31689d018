package syncclient_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

func TestRun_EnrolsAndSaysHello(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	s := h.Accept(t)
	if s.Cluster != "east" || s.Hello.GetAgent().GetVersion() != "v1" || s.Hello.GetProtocolVersion() != 1 {
		t.Errorf("unexpected session of %q: %v", s.Cluster, s.Hello)
	}
	if specs := s.Inventory(t); len(specs) != 0 {
		t.Errorf("want an empty inventory, got %v", specs)
	}
	if !get(t, a.connected) || !a.Enrolled() {
		t.Error("want the receiver told of the session")
	}
	if a.keeper.saves != 1 || a.keeper.kept == nil {
		t.Error("want the credential kept")
	}
}

func TestRun_AKeptCredentialNeedsNoEnrolment(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	first := start(t, h)
	h.Accept(t)
	first.stop()
	start(t, h, func(c *syncclient.Config) {
		c.Credentials, c.Evidence = first.keeper, &account{down: errors.New("forbidden")}
	})
	if s := h.Accept(t); s.Cluster != "east" {
		t.Errorf("got cluster %q", s.Cluster)
	}
	if n := len(h.Enrolments()); n != 1 {
		t.Errorf("want one enrolment, got %d", n)
	}
}

func TestRun_AMalformedCredentialIsReplaced(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	start(t, h, func(c *syncclient.Config) {
		c.Credentials = &keeper{loads: fmt.Errorf("secret: %w", credential.ErrMalformed)}
	})
	h.Accept(t)
}

func TestRun_AnotherClustersIdentityIsNotUsed(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	first := start(t, h)
	h.Accept(t)
	first.stop()
	before := first.keeper.looked()
	start(t, h, func(c *syncclient.Config) { c.Credentials, c.Cluster = first.keeper, "west" })
	gomega.NewWithT(t).Eventually(func() int { return first.keeper.looked() - before }, patience).Should(gomega.BeNumerically(">", 3))
	if n := len(h.Enrolments()); n != 1 || first.keeper.saves != 1 {
		t.Errorf("%d enrolments and %d saves, want those of the first agent alone", n, first.keeper.saves)
	}
}

// kinds are the kinds of evidence that came.
func kinds(h *hubtest.Hub) []string {
	var all []string
	for _, request := range h.Enrolments() {
		switch request.GetEvidence().(type) {
		case *fleetv1.EnrollRequest_ServiceAccountToken:
			all = append(all, "token")
		case *fleetv1.EnrollRequest_JoinToken:
			all = append(all, "join")
		default:
			all = append(all, "none")
		}
	}
	return all
}

func TestRun_FirstContact(t *testing.T) {
	readable := func(c *syncclient.Config) { c.Evidence = &account{jwks: "{}"} }
	for name, tc := range map[string]struct {
		settings hubtest.Settings
		want     string // the evidence of the first requests
	}{
		"where the hub knows the keys no join token is sent": {hubtest.Settings{}, "[token]"},
		"where it does not, the join token follows":          {hubtest.Settings{UnknownKeys: true}, "[token join]"},
		"when its answer is lost, the token alone is enough": {hubtest.Settings{UnknownKeys: true, LoseJoin: true}, "[token join token]"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.Start(t, tc.settings)
			start(t, h, readable)
			h.Accept(t)
			if got := fmt.Sprint(kinds(h)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRun_WithoutReadableKeysAJoinTokenIsKept(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{UnknownKeys: true})
	start(t, h)
	gomega.NewWithT(t).Eventually(func() int { return len(h.Enrolments()) }, patience).Should(gomega.BeNumerically(">", 3))
	for _, kind := range kinds(h) {
		if kind != "token" {
			t.Fatalf("the join token was sent without keys: %v", kinds(h))
		}
	}
}

func TestRun_ACredentialThatCannotBeKeptIsNotUsed(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h, func(c *syncclient.Config) { c.Credentials.(*keeper).locked = errors.New("forbidden") })
	gomega.NewWithT(t).Eventually(a.keeper.tried, patience).Should(gomega.BeNumerically(">", 3))
	if a.Enrolled() {
		t.Error("it is used")
	}
	a.keeper.lock(nil)
	h.Accept(t)
}

func TestRun_RenewsWithANewKeyAndNewEvidence(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{RenewAfter: 100 * time.Millisecond})
	start(t, h)
	h.Accept(t)
	h.Accept(t)
	requests := h.Enrolments()
	if len(requests) < 2 {
		t.Fatalf("want a second enrolment, got %d", len(requests))
	}
	if string(requests[0].GetCsrDer()) == string(requests[1].GetCsrDer()) || requests[0].GetServiceAccountToken() == requests[1].GetServiceAccountToken() {
		t.Error("want a new key and a token for it")
	}
}

// A renewal that cannot be kept leaves the certificate that holds in use, and costs no
// session.
func TestRun_ARenewalThatCannotBeKeptChangesNothing(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{RenewAfter: 100 * time.Millisecond})
	a := start(t, h, func(c *syncclient.Config) { c.Credentials.(*keeper).once = errors.New("forbidden") })
	s := h.Accept(t)
	s.Inventory(t)
	before := a.keeper.keeps()
	gomega.NewWithT(t).Eventually(a.keeper.tried, patience).Should(gomega.BeNumerically(">", 1))
	a.Upsert(spec("pg", ""))
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "pg" {
		t.Errorf("want the session to go on, got %v", got)
	}
	if a.keeper.keeps() != before {
		t.Error("another credential is kept")
	}
}

func TestRun_AnExpiredCertificateLocksNobodyOut(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{Lifetime: time.Second, UnknownKeys: true})
	readable := func(c *syncclient.Config) { c.Evidence = &account{jwks: "{}"} }
	g := gomega.NewWithT(t)
	first := start(t, h, readable)
	g.Eventually(first.keeper.keeps, patience).ShouldNot(gomega.BeNil())
	first.stop()
	kept := first.keeper.keeps()
	g.Eventually(func() bool { return kept.ValidAt(time.Now()) }, patience).Should(gomega.BeFalse())
	// A second is too short for a session of a busy machine.
	h.Configure(func(s *hubtest.Settings) { s.Lifetime = time.Hour })
	second := start(t, h, readable, func(c *syncclient.Config) { c.Credentials, c.JoinTokenFile = first.keeper, "" })
	if !get(t, second.connected) {
		t.Error("want a session")
	}
}

// The hub learns the keys in every session, and no more of them while they stay.
func TestRun_TellsTheClustersKeys(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	start(t, h, func(c *syncclient.Config) { c.Evidence = &account{jwks: `{"keys":[]}`} })
	for range 2 {
		s := h.Accept(t)
		s.Inventory(t)
		if got := s.Next(t).GetKeys(); string(got.GetJwks()) != `{"keys":[]}` || got.GetIssuer() != "https://cluster.example" {
			t.Errorf("want the keys, got %v", got)
		}
		s.End(nil)
	}
}

func TestRun_ARejectedCertificateIsReplacedByEnrolling(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	other := hubtest.Start(t, hubtest.Settings{})
	first := start(t, other) // its certificate is of another hub
	other.Accept(t)
	first.stop()
	start(t, h, func(c *syncclient.Config) { c.Credentials = first.keeper })
	h.Accept(t)
	if n := len(h.Enrolments()); n != 1 {
		t.Errorf("want one enrolment, got %d", n)
	}
}

func TestRun_AHubThatIsNotPinnedIsNotSpokenTo(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	other := hubtest.Start(t, hubtest.Settings{})
	start(t, h, func(c *syncclient.Config) { c.CAFile = other.CAFile })
	right := start(t, h)
	h.Accept(t)
	right.stop()
	if n := len(h.Enrolments()); n != 1 {
		t.Errorf("want no token sent to a hub that is not pinned, got %d enrolments", n)
	}
}
