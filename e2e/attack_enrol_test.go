package e2e_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// agent is the agent's ServiceAccount in every workload cluster.
const agent = v1alpha1.DefaultSpokeServiceAccount

// audience binds a token to a name and a key.
func audience(t *testing.T, cluster string, key *ecdsa.PrivateKey) string {
	t.Helper()
	text, err := identity.TokenAudience(identity.DefaultTrustDomain, cluster, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// keysOf are what a spoke's API server signs tokens with.
func keysOf(t *testing.T, spoke *stage.Spoke) *v1alpha1.ClusterKeys {
	t.Helper()
	keys, err := spoke.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// tokenOf asks a spoke's API server for a token of a ServiceAccount.
func tokenOf(t *testing.T, spoke *stage.Spoke, namespace, account string, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := spoke.Client.SubResource("token").Create(t.Context(), of, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// enrol asks for a certificate for a key, again where the hub asks for patience.
func enrol(t *testing.T, req *fleetv1.EnrollRequest, key *ecdsa.PrivateKey) error {
	t.Helper()
	var err error
	if req.CsrDer, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key); err != nil {
		t.Fatal(err)
	}
	conn := (&recorder{}).dial(t, nil)
	gomega.NewWithT(t).Eventually(func() string {
		_, err = fleetv1.NewEnrollmentServiceClient(conn).Enroll(t.Context(), req)
		return verdictOf(err).reason
	}).WithTimeout(patience).ShouldNot(gomega.Equal(identity.ReasonTooManyRequests))
	return err
}

// TestAttacks_OnAnEnrolment: whoever cannot show a token of the agent's ServiceAccount,
// signed by the cluster's own keys and bound to its name and to the key of the request,
// gets no certificate, one reason for all that is wrong with it, and leaves a line. Both
// clusters sign in the name of one issuer.
func TestAttacks_OnAnEnrolment(t *testing.T) {
	east, west := fleet.Spoke("east"), fleet.Spoke("west")
	mine, theirs := "attacked-enrolment", "attacked-neighbour"
	for name, spoke := range map[string]*stage.Spoke{mine: east, theirs: west} {
		keys := keysOf(t, spoke)
		update(t, fleet.Hub.Cluster, register(t, name), func(c *v1alpha1.SpokeCluster) { c.Spec.Keys = keys })
	}
	create(t, east.Cluster, namespace("attacked-enrolment"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked-enrolment", Name: agent}})
	key := newKey(t)
	own := audience(t, mine, key)
	token := tokenOf(t, east, stage.Namespace, agent, own)
	with := func(token string) *fleetv1.EnrollRequest {
		return &fleetv1.EnrollRequest{Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: token}}
	}
	prefix := mine[:len(mine)-1]
	wrong := verdict{codes.PermissionDenied, identity.ReasonEvidenceInvalid}
	for title, tc := range map[string]struct {
		claim string
		req   *fleetv1.EnrollRequest
		key   *ecdsa.PrivateKey
		want  verdict
	}{
		"a stolen token, with the thief's key":       {mine, with(token), newKey(t), wrong},
		"a token for another name":                   {theirs, with(token), key, wrong},
		"a neighbour's name in a token of its own":   {theirs, with(tokenOf(t, east, stage.Namespace, agent, audience(t, theirs, key))), key, wrong},
		"a prefix of a name":                         {prefix, with(tokenOf(t, east, stage.Namespace, agent, audience(t, prefix, key))), key, wrong},
		"other keys of the same issuer":              {mine, with(tokenOf(t, west, stage.Namespace, agent, own)), key, wrong},
		"another ServiceAccount":                     {mine, with(tokenOf(t, east, stage.Namespace, "default", own)), key, wrong},
		"the ServiceAccount of another namespace":    {mine, with(tokenOf(t, east, "attacked-enrolment", agent, own)), key, wrong},
		"a token that others accept too":             {mine, with(tokenOf(t, east, stage.Namespace, agent, own, "vault")), key, wrong},
		"the token that every pod of the agent has":  {mine, with(tokenOf(t, east, stage.Namespace, agent)), key, wrong},
		"a token that is none":                       {mine, with("e30.e30."), key, wrong},
		"no evidence":                                {mine, &fleetv1.EnrollRequest{}, key, verdict{codes.InvalidArgument, identity.ReasonRequestInvalid}},
		"a name that leads out of the certificate's": {"../" + mine, with(token), key, verdict{codes.InvalidArgument, identity.ReasonNameInvalid}},
	} {
		t.Run(title, func(t *testing.T) {
			tc.req.Cluster = tc.claim
			isAudited(t, line{"event": "enrolment", "verdict": "refused", "claimed": tc.claim, "reason": tc.want.reason}, func() {
				if err := enrol(t, tc.req, tc.key); verdictOf(err) != tc.want {
					t.Errorf("verdict %+v, want %+v", verdictOf(err), tc.want)
				}
			})
		})
	}
	// Who manages the cluster sees it, with the rights that the hub has. HaveEach wants one at least.
	gomega.NewWithT(t).Eventually(func() []string { return eventsOf(t, mine) }).WithTimeout(patience).Should(gomega.HaveEach(identity.ReasonEvidenceInvalid))
	if got := eventsOf(t, mine); len(got) > fleet.Hub.Serving() {
		t.Errorf("%d events of %d replicas within a minute", len(got), fleet.Hub.Serving())
	}
	if got := eventsOf(t, prefix); len(got) != 0 {
		t.Errorf("a name that is none has the events %q", got)
	}
	isAudited(t, line{"event": "enrolment", "verdict": "allowed", "cluster": mine, "evidence": "ServiceAccountToken"}, func() {
		req := with(token)
		req.Cluster = mine
		if err := enrol(t, req, key); err != nil {
			t.Errorf("the token that all the others differ from is refused: %v", err)
		}
	})
}

// eventsOf are the reasons of the events about a SpokeCluster.
func eventsOf(t *testing.T, cluster string) []string {
	t.Helper()
	var all eventsv1.EventList
	if err := fleet.Hub.Client.List(t.Context(), &all, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, event := range all.Items {
		if event.Regarding.Kind == "SpokeCluster" && event.Regarding.Name == cluster {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// TestAttacks_OnAJoinToken: it is used once, for its own name.
func TestAttacks_OnAJoinToken(t *testing.T) {
	const name, other = "attacked-joiner", "attacked-bystander"
	east := fleet.Spoke("east")
	joinToken, err := fleet.Hub.RegisterToJoin(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	register(t, other)
	keys := keysOf(t, east)
	join := func(name, joinToken string) error {
		key := newKey(t)
		return enrol(t, &fleetv1.EnrollRequest{Cluster: name, Evidence: &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{
			Token: joinToken, ServiceAccountToken: tokenOf(t, east, stage.Namespace, agent, audience(t, name, key)),
			Keys: &fleetv1.ClusterKeys{Issuer: keys.Issuer, Jwks: []byte(keys.JWKS)},
		}}}, key)
	}
	wrong := verdict{codes.PermissionDenied, identity.ReasonEvidenceInvalid}
	for _, step := range []struct {
		title, name, token string
		want               verdict
	}{
		{"for another cluster", other, joinToken, wrong},
		{"another token", name, joinToken + "x", wrong},
		{"for its own", name, joinToken, verdict{}},
		{"replayed", name, joinToken, wrong},
	} {
		want := line{"event": "enrolment", "verdict": "refused", "claimed": step.name, "reason": step.want.reason, "evidence": "JoinToken"}
		if step.want == (verdict{}) {
			want = line{"event": "enrolment", "verdict": "allowed", "cluster": step.name, "evidence": "JoinToken"}
		}
		isAudited(t, want, func() {
			if got := verdictOf(join(step.name, step.token)); got != step.want {
				t.Errorf("%s: verdict %+v, want %+v", step.title, got, step.want)
			}
		})
	}
}
