package enroll_test

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

var (
	accepted        = v1alpha1.SpokeClusterSpec{Accepted: true}
	evidenceInvalid = spoketest.Verdict{Code: codes.PermissionDenied, Reason: identity.ReasonEvidenceInvalid}
	requestInvalid  = spoketest.Verdict{Code: codes.InvalidArgument, Reason: identity.ReasonRequestInvalid}
)

func TestEnroll_WithAJoinToken(t *testing.T) {
	s := newSite(t)
	name, token := cluster(t, accepted, time.Hour)
	key, begin := spoketest.Key(t), time.Now()
	req := joining(t, name, token)
	req.CsrDer = csr(t, key, &x509.CertificateRequest{})
	resp, err := s.enroll(t, nil, req)
	if err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(s.ca.BundleDER(), resp.GetTrustBundleDer()); diff != "" {
		t.Error("the bundle is not the authority's")
	}
	if renew := resp.GetRenewAfter().AsTime(); renew.Before(begin.Add(lifetime*2/5)) || renew.After(time.Now().Add(lifetime*3/5)) {
		t.Errorf("renewal at %v is not about half way", renew)
	}
	if at := resp.GetServerTime().AsTime(); at.Before(begin) || at.After(time.Now()) {
		t.Errorf("the hub's clock says %v", at)
	}

	_, err = s.enroll(t, nil, joining(t, name, token))
	if got := spoketest.VerdictOf(err); got != evidenceInvalid {
		t.Errorf("replayed: %+v", got)
	}
	// What was got is good for a renewal at once.
	if _, err := s.enroll(t, spoketest.Pair(key, leaf), renewing(t, name)); err != nil {
		t.Errorf("renewal: %v", err)
	}
}

func TestEnroll_RefusesEvidence(t *testing.T) {
	s := newSite(t)
	name, token := cluster(t, accepted, time.Hour)
	_, otherToken := cluster(t, accepted, time.Hour)
	over, overToken := cluster(t, accepted, -time.Minute)
	waiting, waitingToken := cluster(t, v1alpha1.SpokeClusterSpec{}, time.Hour)
	suspended, suspendedToken := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true}, time.Hour)
	keyless := joining(t, name, token)
	keyless.Evidence = &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: otherToken}
	for title, tc := range map[string]struct {
		req  *fleetv1.EnrollRequest
		want spoketest.Verdict
	}{
		"a wrong token":              {joining(t, name, "dcj_guess"), evidenceInvalid},
		"no token in the evidence":   {joining(t, name, ""), evidenceInvalid},
		"another cluster's token":    {joining(t, name, otherToken), evidenceInvalid},
		"a token that is over":       {joining(t, over, overToken), evidenceInvalid},
		"a cluster nobody knows":     {joining(t, "nobody", token), evidenceInvalid},
		"a cluster nobody accepted":  {joining(t, waiting, waitingToken), spoketest.Verdict{Code: codes.FailedPrecondition, Reason: identity.ReasonNotAccepted}},
		"a suspended cluster":        {joining(t, suspended, suspendedToken), spoketest.Verdict{Code: codes.FailedPrecondition, Reason: identity.ReasonSuspended}},
		"a name that is none":        {joining(t, "Prod.EU", token), spoketest.Verdict{Code: codes.InvalidArgument, Reason: identity.ReasonNameInvalid}},
		"a ServiceAccount's token":   {keyless, spoketest.Verdict{Code: codes.Unimplemented, Reason: identity.ReasonEvidenceUnsupported}},
		"no evidence of either kind": {renewing(t, name), spoketest.Verdict{Code: codes.Unauthenticated, Reason: identity.ReasonCertificateMissing}},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := s.enroll(t, nil, tc.req)
			if got := spoketest.VerdictOf(err); got != tc.want {
				t.Errorf("verdict %+v, want %+v", got, tc.want)
			}
			for _, secret := range []string{token, otherToken, overToken, waitingToken, suspendedToken} {
				if strings.Contains(err.Error(), secret) || strings.Contains(logged.String(), secret) {
					t.Error("a token is in the error or the log")
				}
			}
		})
	}
	if strings.Contains(logged.String(), "Prod.EU") {
		t.Error("the log holds what a stranger wrote where a name belongs")
	}
	if !strings.Contains(logged.String(), identity.ReasonEvidenceInvalid) {
		t.Error("refusals are not logged")
	}
	for _, unused := range []string{name, over, waiting, suspended} {
		c := &v1alpha1.SpokeCluster{}
		if err := hub.Client.Get(t.Context(), client.ObjectKey{Name: unused}, c); err != nil {
			t.Fatal(err)
		}
		if c.Status.RedeemedJoinToken != "" {
			t.Errorf("a refusal used the token of %s up", unused)
		}
	}
}

// Names must not be found by trying: the whole status is the same.
func TestEnroll_AnUnknownClusterAnswersLikeAWrongToken(t *testing.T) {
	s := newSite(t)
	name, _ := cluster(t, accepted, time.Hour)
	_, known := s.enroll(t, nil, joining(t, name, "dcj_guess"))
	_, unknown := s.enroll(t, nil, joining(t, "nobody", "dcj_guess"))
	if diff := cmp.Diff(status.Convert(known).Proto(), status.Convert(unknown).Proto(), protocmp.Transform()); diff != "" {
		t.Errorf("they differ:\n%s", diff)
	}
}

func TestEnroll_OfTwoThatRedeemTogetherOneWins(t *testing.T) {
	s := newSite(t)
	name, token := cluster(t, accepted, time.Hour)
	requests := []*fleetv1.EnrollRequest{joining(t, name, token), joining(t, name, token)}
	errs := make([]error, len(requests))
	var group sync.WaitGroup
	for i, req := range requests {
		group.Go(func() { _, errs[i] = s.enroll(t, nil, req) })
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

// An API server that fails is no verdict, and its text stays on the hub.
func TestEnroll_ARegistryThatFails(t *testing.T) {
	ca := spoketest.Authority(t)
	service := enroll.New(enroll.Config{Signer: ca, Registry: failing{}, Lifetime: lifetime, Now: time.Now})
	_, err := service.Enroll(t.Context(), joining(t, "prod", "dcj_guess"))
	if got := spoketest.VerdictOf(err); got != (spoketest.Verdict{Code: codes.Unavailable, Reason: identity.ReasonUnavailable}) {
		t.Errorf("verdict %+v", got)
	}
	if strings.Contains(err.Error(), "10.0.0.1") {
		t.Errorf("the error holds the hub's address of it: %v", err)
	}
}

type failing struct{ enroll.Registry }

func (failing) RedeemJoinToken(context.Context, string, string) error {
	return errors.New("dial tcp 10.0.0.1:6443: connection refused")
}

// renewing asks with nothing but the connection's certificate.
func renewing(t *testing.T, name string) *fleetv1.EnrollRequest {
	t.Helper()
	return &fleetv1.EnrollRequest{Cluster: name, CsrDer: csr(t, spoketest.Key(t), &x509.CertificateRequest{})}
}

func TestEnroll_Renewal(t *testing.T) {
	s := newSite(t)
	name, _ := cluster(t, accepted, time.Hour)
	suspended, _ := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true}, time.Hour)
	for title, tc := range map[string]struct {
		certified, claimed string
		lives              time.Duration
		want               spoketest.Verdict
	}{
		"its own certificate renews it":               {name, name, time.Hour, spoketest.Verdict{}},
		"another cluster's does not":                  {"other", name, time.Hour, evidenceInvalid},
		"a certificate of a prefix of it does not":    {name[:len(name)-1], name, time.Hour, evidenceInvalid},
		"a certificate that is over does not":         {name, name, -time.Minute, spoketest.Verdict{Code: codes.Unauthenticated, Reason: identity.ReasonCertificateExpired}},
		"a suspended cluster's does not":              {suspended, suspended, time.Hour, spoketest.Verdict{Code: codes.FailedPrecondition, Reason: identity.ReasonSuspended}},
		"a cluster that was removed is not certified": {"removed", "removed", time.Hour, spoketest.Verdict{Code: codes.PermissionDenied, Reason: identity.ReasonUnknownCluster}},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := s.enroll(t, spoketest.Certificate(t, s.ca, tc.certified, tc.lives), renewing(t, tc.claimed))
			if got := spoketest.VerdictOf(err); got != tc.want {
				t.Errorf("verdict %+v, want %+v (%v)", got, tc.want, err)
			}
		})
	}
}
