package enroll_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

var (
	accepted        = v1alpha1.SpokeClusterSpec{Accepted: true}
	evidenceInvalid = spoketest.Verdict{Code: codes.PermissionDenied, Reason: identity.ReasonEvidenceInvalid}
	requestInvalid  = spoketest.Verdict{Code: codes.InvalidArgument, Reason: identity.ReasonRequestInvalid}
	notAccepted     = spoketest.Verdict{Code: codes.FailedPrecondition, Reason: identity.ReasonNotAccepted}
	isSuspended     = spoketest.Verdict{Code: codes.FailedPrecondition, Reason: identity.ReasonSuspended}
)

func TestEnroll_WithPinnedKeys(t *testing.T) {
	s, issuer, key := newSite(t), spoketest.NewIssuer(t), spoketest.Key(t)
	name := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: issuer.Keys(t)})
	begin := time.Now()
	resp, err := s.enroll(t, asking(t, name, key, issuer.Token(t, spoketest.Claims(audience(t, name, key)))))
	if err != nil {
		t.Fatal(err)
	}
	s.isFor(t, resp, name, key)
	if diff := cmp.Diff(s.ca.BundleDER(), resp.GetTrustBundleDer()); diff != "" {
		t.Error("the bundle is not the authority's")
	}
	if renew := resp.GetRenewAfter().AsTime(); renew.Before(begin.Add(lifetime*2/5)) || renew.After(time.Now().Add(lifetime*3/5)) {
		t.Errorf("renewal at %v is not about half way", renew)
	}
	if at := resp.GetServerTime().AsTime(); at.Before(begin) || at.After(time.Now()) {
		t.Errorf("the hub's clock says %v", at)
	}
	// A renewal is the same act with another key.
	if _, err := s.enroll(t, proving(t, name, issuer)); err != nil {
		t.Errorf("renewal: %v", err)
	}
}

// isFor fails when an answer does not certify a key for a cluster.
func (s *site) isFor(t *testing.T, resp *fleetv1.EnrollResponse, name string, key *ecdsa.PrivateKey) {
	t.Helper()
	leaf, err := x509.ParseCertificate(resp.GetChainDer()[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: s.ca.Roots(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if got, err := identity.ClusterOf(leaf, spoketest.TrustDomain); err != nil || got != name {
		t.Errorf("it names %q, %v", got, err)
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		t.Error("another key than the request's was signed")
	}
}

// The answer to a join may be lost: the agent goes on without the join token, which
// is used up, because its keys are pinned.
func TestEnroll_AJoinWhoseAnswerIsLost(t *testing.T) {
	s, issuer := newSite(t), spoketest.NewIssuer(t)
	name, token := joinable(t, accepted, time.Hour)
	if _, err := s.enroll(t, proving(t, name, issuer)); spoketest.VerdictOf(err) != evidenceInvalid {
		t.Fatalf("before its keys are pinned: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	service := enroll.New(enroll.Config{
		Signer: s.ca, TrustDomain: spoketest.TrustDomain, Lifetime: lifetime, Now: time.Now,
		Registry: dropping{&registry.Registry{Reader: hub.Client, Status: hub.Client.Status(), Now: time.Now}, cancel},
	})
	if _, err := service.Enroll(ctx, joining(t, name, token, issuer)); err == nil || ctx.Err() == nil {
		t.Fatalf("the answer is not lost: %v", err)
	}
	if _, err := s.enroll(t, joining(t, name, token, issuer)); spoketest.VerdictOf(err) != evidenceInvalid {
		t.Errorf("the join token counts twice: %v", err)
	}
	if _, err := s.enroll(t, proving(t, name, issuer)); err != nil {
		t.Errorf("the agent is locked out: %v", err)
	}
}

// dropping loses the connection when a join is recorded.
type dropping struct {
	*registry.Registry
	cancel context.CancelFunc
}

func (d dropping) Join(ctx context.Context, cluster string, j registry.Joining) error {
	err := d.Registry.Join(ctx, cluster, j)
	d.cancel()
	return errors.Join(err, ctx.Err())
}

func TestEnroll_RefusesEvidence(t *testing.T) {
	own, other := spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	pinned := func(change func(*v1alpha1.SpokeClusterSpec)) string {
		spec := v1alpha1.SpokeClusterSpec{Accepted: true, Keys: own.Keys(t)}
		change(&spec)
		return cluster(t, spec)
	}
	name := pinned(func(*v1alpha1.SpokeClusterSpec) {})
	neighbour := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: other.Keys(t)})
	waiting := pinned(func(c *v1alpha1.SpokeClusterSpec) { c.Accepted = false })
	suspended := pinned(func(c *v1alpha1.SpokeClusterSpec) { c.Suspend = true })
	first, joinToken := joinable(t, accepted, time.Hour)
	over, overToken := joinable(t, accepted, -time.Minute)
	waitingToJoin, waitingToken := joinable(t, v1alpha1.SpokeClusterSpec{}, time.Hour)

	key := spoketest.Key(t)
	token := own.Token(t, spoketest.Claims(audience(t, name, key)))
	bare := asking(t, name, key, token)
	bare.Evidence = nil
	withoutProof := joining(t, first, joinToken, own)
	withoutProof.GetJoinToken().ServiceAccountToken = ""
	withoutKeys := joining(t, first, joinToken, own)
	withoutKeys.GetJoinToken().Keys = nil
	otherKeys := joining(t, first, joinToken, own)
	otherKeys.GetJoinToken().Keys.Jwks = []byte(other.Keys(t).JWKS)
	for title, tc := range map[string]struct {
		req  *fleetv1.EnrollRequest
		want spoketest.Verdict
	}{
		"a token that was stolen, for the thief's key":  {asking(t, name, spoketest.Key(t), token), evidenceInvalid},
		"its own token for another cluster's name":      {asking(t, neighbour, key, token), evidenceInvalid},
		"its own token for a prefix of its name":        {asking(t, name[:len(name)-1], key, token), evidenceInvalid},
		"another cluster's keys with the same issuer":   {proving(t, name, other), evidenceInvalid},
		"a cluster nobody knows":                        {proving(t, "nobody", own), evidenceInvalid},
		"a cluster whose keys are not known":            {proving(t, first, own), evidenceInvalid},
		"a cluster nobody accepted":                     {proving(t, waiting, own), notAccepted},
		"wrong evidence for a cluster nobody accepted":  {proving(t, waiting, other), evidenceInvalid},
		"a suspended cluster":                           {proving(t, suspended, own), isSuspended},
		"no token in the evidence":                      {asking(t, name, key, ""), evidenceInvalid},
		"no evidence":                                   {bare, requestInvalid},
		"a name that is none":                           {proving(t, "Prod.EU", own), spoketest.Verdict{Code: codes.InvalidArgument, Reason: identity.ReasonNameInvalid}},
		"a wrong join token":                            {joining(t, first, "dcj_guess", own), evidenceInvalid},
		"another cluster's join token":                  {joining(t, first, overToken, own), evidenceInvalid},
		"a join token for a cluster nobody knows":       {joining(t, "nobody", joinToken, own), evidenceInvalid},
		"a join token that is over":                     {joining(t, over, overToken, own), evidenceInvalid},
		"a join token without a token of the account":   {withoutProof, evidenceInvalid},
		"a join token without keys":                     {withoutKeys, requestInvalid},
		"a join token with other keys than the token's": {otherKeys, evidenceInvalid},
		"a join token of a cluster nobody accepted":     {joining(t, waitingToJoin, waitingToken, own), notAccepted},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := newSite(t).enroll(t, tc.req) // each with limits of its own
			if got := spoketest.VerdictOf(err); got != tc.want {
				t.Errorf("verdict %+v, want %+v", got, tc.want)
			}
			for _, secret := range []string{token, joinToken, overToken, waitingToken, tc.req.GetServiceAccountToken(), tc.req.GetJoinToken().GetServiceAccountToken()} {
				if secret != "" && (strings.Contains(err.Error(), secret) || strings.Contains(logged.String(), secret)) {
					t.Error("a token is in the error or the log")
				}
			}
		})
	}
	if strings.Contains(logged.String(), "Prod.EU") {
		t.Error("the log holds what a stranger wrote where a name belongs")
	}
	if !strings.Contains(logged.String(), identity.ReasonEvidenceInvalid) || !strings.Contains(logged.String(), "audience") {
		t.Error("refusals are not logged with their cause")
	}
	// No refusal used a join token up.
	if _, err := newSite(t).enroll(t, joining(t, first, joinToken, own)); err != nil {
		t.Error(err)
	}
}

// Names must not be found by trying: the whole status is the same.
func TestEnroll_AnUnknownClusterAnswersLikeWrongEvidence(t *testing.T) {
	s, issuer := newSite(t), spoketest.NewIssuer(t)
	pinned := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: spoketest.NewIssuer(t).Keys(t)})
	joined, _ := joinable(t, accepted, time.Hour)
	_, want := s.enroll(t, proving(t, "nobody", issuer))
	for title, req := range map[string]*fleetv1.EnrollRequest{
		"a wrong token": proving(t, pinned, issuer), "a token before keys are pinned": proving(t, joined, issuer),
		"a wrong join token": joining(t, joined, "dcj_guess", issuer), "a join token for nobody": joining(t, "nobody", "dcj_guess", issuer),
	} {
		_, got := s.enroll(t, req)
		if diff := cmp.Diff(status.Convert(want).Proto(), status.Convert(got).Proto(), protocmp.Transform()); diff != "" {
			t.Errorf("%s differs:\n%s", title, diff)
		}
	}
}

func TestEnroll_OfTwoThatJoinTogetherOneWins(t *testing.T) {
	s := newSite(t)
	name, token := joinable(t, accepted, time.Hour)
	requests := []*fleetv1.EnrollRequest{joining(t, name, token, spoketest.NewIssuer(t)), joining(t, name, token, spoketest.NewIssuer(t))}
	errs := make([]error, len(requests))
	var group sync.WaitGroup
	for i, req := range requests {
		group.Go(func() { _, errs[i] = s.enroll(t, req) })
	}
	group.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("errors %v: want exactly one", errs)
	}
	for _, err := range errs {
		if got := spoketest.VerdictOf(err); err != nil && got != evidenceInvalid {
			t.Errorf("the loser is told %+v", got)
		}
	}
}

// A stolen certificate and its key get no further one.
func TestEnroll_ACertificateProvesNothing(t *testing.T) {
	s, issuer := newSite(t), spoketest.NewIssuer(t)
	name := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: issuer.Keys(t)})
	req := proving(t, name, issuer)
	req.Evidence = nil
	conn := s.port.Dial(t, spoketest.Certificate(t, s.ca, name, time.Hour))
	if _, err := fleetv1.NewEnrollmentServiceClient(conn).Enroll(t.Context(), req); spoketest.VerdictOf(err) != requestInvalid {
		t.Errorf("verdict %+v", spoketest.VerdictOf(err))
	}
}

// An API server that fails is no verdict, and its text stays on the hub.
func TestEnroll_ARegistryThatFails(t *testing.T) {
	service := enroll.New(enroll.Config{
		Signer: spoketest.Authority(t), Registry: failing{}, TrustDomain: spoketest.TrustDomain, Lifetime: lifetime, Now: time.Now,
	})
	_, err := service.Enroll(t.Context(), proving(t, "prod", spoketest.NewIssuer(t)))
	if got := spoketest.VerdictOf(err); got != (spoketest.Verdict{Code: codes.Unavailable, Reason: identity.ReasonUnavailable}) {
		t.Errorf("verdict %+v", got)
	}
	if strings.Contains(err.Error(), "10.0.0.1") {
		t.Errorf("the error holds the hub's address of it: %v", err)
	}
}

type failing struct{ enroll.Registry }

func (failing) Verify(context.Context, string, registry.Proof) error {
	return errors.New("dial tcp 10.0.0.1:6443: connection refused")
}
