package enroll_test

import (
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// workload is a workload cluster: a real API server.
type workload struct{ *testenv.Cluster }

// keys are what the API server publishes.
func (w workload) keys(t *testing.T) *v1alpha1.ClusterKeys {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := api.RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.ClusterKeys{Issuer: testenv.DefaultIssuer, JWKS: string(jwks)}
}

// token is a token of a ServiceAccount for audiences; for the API server without any.
func (w workload) token(t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, account.DeepCopy()} {
		if err := w.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := w.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// TestEnroll_WithTokensOfRealAPIServers attacks with what two real API servers of the
// same issuer sign.
func TestEnroll_WithTokensOfRealAPIServers(t *testing.T) {
	const namespace, account = v1alpha1.DefaultSpokeNamespace, v1alpha1.DefaultSpokeServiceAccount
	one, two := workload{hub}, workload{testenv.ControlPlane(t, testenv.WithoutControllers)}
	prod := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: one.keys(t)})
	dev := cluster(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: two.keys(t)})
	key := spoketest.Key(t)
	own := audience(t, prod, key)
	token := one.token(t, namespace, account, own)
	for title, tc := range map[string]struct {
		req   *fleetv1.EnrollRequest
		later time.Duration
		want  spoketest.Verdict
	}{
		"its own token for its own key":              {asking(t, prod, key, token), 0, spoketest.Verdict{}},
		"the token with a thief's key":               {asking(t, prod, spoketest.Key(t), token), 0, evidenceInvalid},
		"the token for another cluster's name":       {asking(t, dev, key, token), 0, evidenceInvalid},
		"another name in a token of its own":         {asking(t, dev, key, one.token(t, namespace, account, audience(t, dev, key))), 0, evidenceInvalid},
		"a prefix of its name":                       {asking(t, prod[:len(prod)-1], key, one.token(t, namespace, account, audience(t, prod[:len(prod)-1], key))), 0, evidenceInvalid},
		"a token of the other cluster, same issuer":  {asking(t, prod, key, two.token(t, namespace, account, own)), 0, evidenceInvalid},
		"another ServiceAccount of the cluster":      {asking(t, prod, key, one.token(t, namespace, "default", own)), 0, evidenceInvalid},
		"the same name in another namespace":         {asking(t, prod, key, one.token(t, "team", account, own)), 0, evidenceInvalid},
		"one that is for the API server too":         {asking(t, prod, key, one.token(t, namespace, account, own, testenv.DefaultIssuer)), 0, evidenceInvalid},
		"the token that a pod of the agent's mounts": {asking(t, prod, key, one.token(t, namespace, account)), 0, evidenceInvalid},
		"the token after its end":                    {asking(t, prod, key, token), 2 * time.Hour, evidenceInvalid},
	} {
		t.Run(title, func(t *testing.T) {
			service := enroll.New(enroll.Config{
				Signer: spoketest.Authority(t), TrustDomain: spoketest.TrustDomain, Lifetime: lifetime,
				Now:      func() time.Time { return time.Now().Add(tc.later) },
				Registry: &registry.Registry{Reader: hub.Client, Status: hub.Client.Status(), Now: func() time.Time { return time.Now().Add(tc.later) }},
			})
			_, err := service.Enroll(t.Context(), tc.req)
			if got := spoketest.VerdictOf(err); got != tc.want {
				t.Errorf("verdict %+v, want %+v", got, tc.want)
			}
		})
	}
}

// The join token pins what a real API server publishes, and is no use to another
// cluster afterwards.
func TestEnroll_AJoinTokenPinsTheKeysOfARealAPIServer(t *testing.T) {
	one := workload{hub}
	name, joinToken := joinable(t, accepted, time.Hour)
	keys := one.keys(t)
	ask := func(join bool) error {
		key := spoketest.Key(t)
		token := one.token(t, v1alpha1.DefaultSpokeNamespace, v1alpha1.DefaultSpokeServiceAccount, audience(t, name, key))
		req := asking(t, name, key, token)
		if join {
			req.Evidence = &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{
				Token: joinToken, ServiceAccountToken: token, Keys: &fleetv1.ClusterKeys{Issuer: keys.Issuer, Jwks: []byte(keys.JWKS)},
			}}
		}
		_, err := newSite(t).enroll(t, req)
		return err
	}
	var got []string
	for _, join := range []bool{false, true, true, false} {
		got = append(got, spoketest.VerdictOf(ask(join)).Reason)
	}
	if want := []string{identity.ReasonEvidenceInvalid, "", identity.ReasonEvidenceInvalid, ""}; !slices.Equal(got, want) {
		t.Errorf("before, joining, replayed, after it: %q, want %q", got, want)
	}
	_, err := newSite(t).enroll(t, joining(t, name, joinToken, spoketest.NewIssuer(t)))
	if got := spoketest.VerdictOf(err); got != evidenceInvalid {
		t.Errorf("a thief of the used token: %+v", got)
	}
}
