package registry_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/satoken"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
)

const audience = "dynamic-config:fleet.example:prod:abc"

// proof is a good token of an issuer.
func proof(t *testing.T, issuer *spoketest.Issuer) registry.Proof {
	t.Helper()
	return registry.Proof{Token: issuer.Token(t, spoketest.Claims(audience)), Audience: audience}
}

func TestRegistry_Verify(t *testing.T) {
	stated, added, other := spoketest.NewIssuer(t), spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	elsewhere := added.Keys(t)
	elsewhere.Issuer = "https://other.example"
	garbled := &v1alpha1.ClusterKeys{Issuer: spoketest.ClusterIssuer, JWKS: "{}"}
	spec := func(keys *v1alpha1.ClusterKeys, change ...func(*v1alpha1.SpokeClusterSpec)) v1alpha1.SpokeClusterSpec {
		s := v1alpha1.SpokeClusterSpec{Accepted: true, Keys: keys}
		for _, f := range change {
			f(&s)
		}
		return s
	}
	for name, tc := range map[string]struct {
		spec   v1alpha1.SpokeClusterSpec
		status *v1alpha1.ClusterKeys
		by     *spoketest.Issuer
		want   string
	}{
		"a key of the spec proves":                          {spec(stated.Keys(t)), nil, stated, ""},
		"a key of the status proves where there is no spec": {spec(nil), added.Keys(t), added, ""},
		"a key of the status counts beside the spec":        {spec(stated.Keys(t)), added.Keys(t), added, ""},
		"but not of another issuer than the spec's":         {spec(stated.Keys(t)), elsewhere, added, identity.ReasonEvidenceInvalid},
		"a key of neither proves nothing":                   {spec(stated.Keys(t)), added.Keys(t), other, identity.ReasonEvidenceInvalid},
		"without keys nothing proves":                       {spec(nil), nil, stated, identity.ReasonEvidenceInvalid},
		"a spec that is no key set proves nothing":          {spec(garbled), stated.Keys(t), stated, identity.ReasonEvidenceInvalid},
		"another ServiceAccount than the stated": {spec(stated.Keys(t), func(s *v1alpha1.SpokeClusterSpec) {
			s.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: "a", Name: "b"}
		}), nil, stated, identity.ReasonEvidenceInvalid},
		"a cluster nobody accepted learns that": {spec(stated.Keys(t), func(s *v1alpha1.SpokeClusterSpec) { s.Accepted = false }), nil, stated, identity.ReasonNotAccepted},
		"but not with wrong evidence":           {spec(stated.Keys(t), func(s *v1alpha1.SpokeClusterSpec) { s.Accepted = false }), nil, other, identity.ReasonEvidenceInvalid},
		"a suspended cluster learns that":       {spec(stated.Keys(t), func(s *v1alpha1.SpokeClusterSpec) { s.Suspend = true }), nil, stated, identity.ReasonSuspended},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := create(t, tc.spec)
			if tc.status != nil {
				c := read(t, cluster)
				c.Status.Keys = tc.status
				if err := hub.Client.Status().Update(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			p := proof(t, tc.by)
			err := newRegistry(time.Now).Verify(t.Context(), cluster, p)
			if got := reasonOf(t, err); got != tc.want {
				t.Errorf("reason %q, want %q (%v)", got, tc.want, err)
			}
			if err != nil && strings.Contains(err.Error(), p.Token) {
				t.Error("the error holds the token")
			}
		})
	}
	if got := reasonOf(t, newRegistry(time.Now).Verify(t.Context(), "nobody", proof(t, stated))); got != identity.ReasonEvidenceInvalid {
		t.Errorf("an unknown cluster answers %q, not as wrong evidence", got)
	}
}

// joinable makes a SpokeCluster with a join token that holds until an hour from now.
func joinable(t *testing.T, spec v1alpha1.SpokeClusterSpec) (name, token string) {
	t.Helper()
	token, hash := identity.NewJoinToken()
	spec.JoinToken = &v1alpha1.JoinToken{SHA256: hash, ExpiresAt: metav1.NewTime(time.Now().Add(time.Hour))}
	return create(t, spec), token
}

func TestRegistry_Join(t *testing.T) {
	issuer, other := spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	name, token := joinable(t, accepted)
	later := func() time.Time { return time.Now().Add(time.Hour) }
	old, oldToken := joinable(t, accepted)
	without := create(t, accepted)
	waiting, waitingToken := joinable(t, v1alpha1.SpokeClusterSpec{})
	suspended, suspendedToken := joinable(t, v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true})
	stated, statedToken := joinable(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: other.Keys(t)})
	good := proof(t, issuer)
	for title, tc := range map[string]struct {
		now            func() time.Time
		cluster, token string
		proof          registry.Proof
		want           string
	}{
		"a wrong token proves nothing":                {time.Now, name, oldToken, good, identity.ReasonEvidenceInvalid},
		"an empty token proves nothing":               {time.Now, name, "", good, identity.ReasonEvidenceInvalid},
		"the stored hash is no token":                 {time.Now, name, read(t, name).Spec.JoinToken.SHA256, good, identity.ReasonEvidenceInvalid},
		"a join token alone proves nothing":           {time.Now, name, token, registry.Proof{Audience: audience}, identity.ReasonEvidenceInvalid},
		"nor with a token of other keys":              {time.Now, name, token, proof(t, other), identity.ReasonEvidenceInvalid},
		"nor with a token for another audience":       {time.Now, name, token, registry.Proof{Token: good.Token, Audience: audience + "d"}, identity.ReasonEvidenceInvalid},
		"a token that is over proves nothing":         {later, old, oldToken, good, identity.ReasonEvidenceInvalid},
		"a cluster without a token has none":          {time.Now, without, token, good, identity.ReasonEvidenceInvalid},
		"an unknown cluster answers as a wrong one":   {time.Now, "nobody", token, good, identity.ReasonEvidenceInvalid},
		"a cluster nobody accepted learns that":       {time.Now, waiting, waitingToken, good, identity.ReasonNotAccepted},
		"a wrong token does not learn of acceptance":  {time.Now, waiting, token, good, identity.ReasonEvidenceInvalid},
		"a suspended cluster learns that":             {time.Now, suspended, suspendedToken, good, identity.ReasonSuspended},
		"keys that the spec states are not displaced": {time.Now, stated, statedToken, good, identity.ReasonEvidenceInvalid},
	} {
		t.Run(title, func(t *testing.T) {
			err := newRegistry(tc.now).Join(t.Context(), tc.cluster, registry.Joining{JoinToken: tc.token, Proof: tc.proof, Keys: *issuer.Keys(t)})
			if got := reasonOf(t, err); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
			for _, secret := range []string{tc.token, tc.proof.Token} {
				if secret != "" && strings.Contains(err.Error(), secret) {
					t.Errorf("the error holds a token: %v", err)
				}
			}
		})
	}
	err := newRegistry(time.Now).Join(t.Context(), name, registry.Joining{JoinToken: token, Proof: good, Keys: v1alpha1.ClusterKeys{Issuer: "i", JWKS: "{}"}})
	if got := reasonOf(t, err); got != identity.ReasonRequestInvalid {
		t.Errorf("keys that are none: reason %q", got)
	}
	for _, unused := range []string{name, old, waiting, suspended, stated} {
		if status := read(t, unused).Status; status.RedeemedJoinToken != "" || status.Keys != nil {
			t.Errorf("a refusal used the token of %s up, or pinned", unused)
		}
	}
}

// The keys count from then on, so an agent that never got the answer goes on without
// its join token.
func TestRegistry_Join_PinsTheKeys(t *testing.T) {
	g, issuer := gomega.NewWithT(t), spoketest.NewIssuer(t)
	name, token := joinable(t, accepted)
	r := newRegistry(time.Now)
	joining := registry.Joining{JoinToken: token, Proof: proof(t, issuer), Keys: *issuer.Keys(t)}
	g.Expect(r.Join(t.Context(), name, joining)).To(gomega.Succeed())
	status := read(t, name).Status
	g.Expect(status.Keys.Issuer).To(gomega.Equal(spoketest.ClusterIssuer))
	g.Expect(apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionKeysPinned).Reason).To(gomega.Equal(v1alpha1.ReasonKeysPinned))

	g.Expect(reasonOf(t, r.Join(t.Context(), name, joining))).To(gomega.Equal(identity.ReasonEvidenceInvalid), "used twice")
	g.Expect(r.Verify(t.Context(), name, proof(t, issuer))).To(gomega.Succeed())

	// A cluster that was built anew joins with a new token.
	rebuilt := spoketest.NewIssuer(t)
	next, hash := identity.NewJoinToken()
	c := read(t, name)
	c.Spec.JoinToken.SHA256 = hash
	g.Expect(hub.Client.Update(t.Context(), c)).To(gomega.Succeed())
	g.Expect(r.Join(t.Context(), name, registry.Joining{JoinToken: next, Proof: proof(t, rebuilt), Keys: *rebuilt.Keys(t)})).To(gomega.Succeed())
	g.Expect(r.Verify(t.Context(), name, proof(t, rebuilt))).To(gomega.Succeed())
	g.Expect(reasonOf(t, r.Verify(t.Context(), name, proof(t, issuer)))).To(gomega.Equal(identity.ReasonEvidenceInvalid), "the keys before count")
}

func TestRegistry_Join_Once(t *testing.T) {
	name, token := joinable(t, accepted)
	const agents = 5
	errs := make([]error, agents)
	var group sync.WaitGroup
	for i := range agents {
		issuer := spoketest.NewIssuer(t)
		joining := registry.Joining{JoinToken: token, Proof: proof(t, issuer), Keys: *issuer.Keys(t)}
		group.Go(func() { errs[i] = newRegistry(time.Now).Join(t.Context(), name, joining) })
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if got := reasonOf(t, err); got != identity.ReasonEvidenceInvalid {
			t.Errorf("a loser is told %q", got)
		}
	}
	if won != 1 {
		t.Errorf("%d agents redeemed one token", won)
	}
}

func TestRegistry_Join_StaysUnusedUntilAccepted(t *testing.T) {
	issuer := spoketest.NewIssuer(t)
	name, token := joinable(t, v1alpha1.SpokeClusterSpec{})
	r, joining := newRegistry(time.Now), registry.Joining{JoinToken: token, Proof: proof(t, issuer), Keys: *issuer.Keys(t)}
	if got := reasonOf(t, r.Join(t.Context(), name, joining)); got != identity.ReasonNotAccepted {
		t.Fatalf("reason %q", got)
	}
	c := read(t, name)
	c.Spec.Accepted = true
	if err := hub.Client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := r.Join(t.Context(), name, joining); err != nil {
		t.Errorf("after it was accepted: %v", err)
	}
}

func TestRegistry_ReportKeys(t *testing.T) {
	stated, added, imposter := spoketest.NewIssuer(t), spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	imposter.KeyID = stated.KeyID
	moved := added.Keys(t)
	moved.Issuer = "https://other.example"
	pinned := v1alpha1.ReasonKeysPinned
	unknown := v1alpha1.ReasonKeysUnknown
	for name, tc := range map[string]struct {
		stated   *v1alpha1.ClusterKeys
		updates  v1alpha1.KeyUpdates
		reported *v1alpha1.ClusterKeys
		want     string
		says     string
		proves   *spoketest.Issuer // whose tokens count afterwards; nil for nobody's
	}{
		"the pinned keys":                                 {stated.Keys(t), "", stated.Keys(t), pinned, "", stated},
		"fewer than are pinned":                           {stated.Keys(t, added), "", stated.Keys(t), pinned, "", added},
		"an addition is flagged where nothing is said":    {stated.Keys(t), "", stated.Keys(t, added), unknown, added.KeyID, stated},
		"an addition is flagged":                          {stated.Keys(t), v1alpha1.KeyUpdatesFlag, stated.Keys(t, added), unknown, added.KeyID, stated},
		"an addition is accepted":                         {stated.Keys(t), v1alpha1.KeyUpdatesAccept, stated.Keys(t, added), pinned, "", added},
		"another issuer is never accepted":                {stated.Keys(t), v1alpha1.KeyUpdatesAccept, moved, unknown, "issuer", stated},
		"another key under a pinned ID is never accepted": {stated.Keys(t), v1alpha1.KeyUpdatesAccept, imposter.Keys(t), unknown, stated.KeyID, stated},
		"a cluster without pinned keys is flagged":        {nil, "", added.Keys(t), unknown, added.KeyID, nil},
		"a cluster without pinned keys is accepted":       {nil, v1alpha1.KeyUpdatesAccept, added.Keys(t), pinned, "", added},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := gomega.NewWithT(t), newRegistry(time.Now)
			cluster := create(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: tc.stated, KeyUpdates: tc.updates})
			g.Expect(r.ReportKeys(t.Context(), cluster, *tc.reported)).To(gomega.Succeed())
			first := read(t, cluster)
			condition := apimeta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionKeysPinned)
			g.Expect(condition.Reason).To(gomega.Equal(tc.want))
			g.Expect(condition.Message).To(gomega.ContainSubstring(tc.says))
			g.Expect(condition.Status == metav1.ConditionTrue).To(gomega.Equal(tc.want == pinned))
			if tc.proves != nil {
				g.Expect(r.Verify(t.Context(), cluster, proof(t, tc.proves))).To(gomega.Succeed())
			}
			g.Expect(reasonOf(t, r.Verify(t.Context(), cluster, proof(t, imposter)))).To(gomega.Equal(identity.ReasonEvidenceInvalid))

			g.Expect(r.ReportKeys(t.Context(), cluster, *tc.reported)).To(gomega.Succeed())
			g.Expect(read(t, cluster).ResourceVersion).To(gomega.Equal(first.ResourceVersion), "equal keys wrote")
		})
	}
}

// A cluster that rotates for ever keeps a bounded number of keys: those it publishes
// and the newest of the others.
func TestRegistry_ReportKeys_AreBounded(t *testing.T) {
	g, r := gomega.NewWithT(t), newRegistry(time.Now)
	cluster := create(t, v1alpha1.SpokeClusterSpec{Accepted: true, KeyUpdates: v1alpha1.KeyUpdatesAccept})
	var all []*spoketest.Issuer
	for range satoken.MaxKeys + 1 {
		issuer := spoketest.NewIssuer(t)
		all = append(all, issuer)
		g.Expect(r.ReportKeys(t.Context(), cluster, *issuer.Keys(t))).To(gomega.Succeed())
	}
	g.Expect(r.Verify(t.Context(), cluster, proof(t, all[satoken.MaxKeys]))).To(gomega.Succeed())
	g.Expect(r.Verify(t.Context(), cluster, proof(t, all[1]))).To(gomega.Succeed())
	g.Expect(reasonOf(t, r.Verify(t.Context(), cluster, proof(t, all[0])))).To(gomega.Equal(identity.ReasonEvidenceInvalid), "the oldest is kept")
	g.Expect(reasonOf(t, r.ReportKeys(t.Context(), cluster, v1alpha1.ClusterKeys{Issuer: "i", JWKS: "x"}))).To(gomega.Equal(identity.ReasonRequestInvalid))
	g.Expect(reasonOf(t, r.ReportKeys(t.Context(), "nobody", *all[0].Keys(t)))).To(gomega.Equal(identity.ReasonUnknownCluster))
}
