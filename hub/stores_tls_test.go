package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/internal/testenv"
)

// guarded is a store that takes no client without a certificate of its authority.
type guarded struct {
	source   v1alpha1.Source
	endpoint string
	token    string
	key      policy.Key // of a document
	text     string
	ca       *testenv.Authority
}

func guardedConsul(t *testing.T) guarded {
	t.Helper()
	ca := newAuthority(t)
	server := testenv.Consul(t, testenv.WithACL, testenv.WithTLS(ca))
	if err := server.Put(t.Context(), "app/db", `{"a":"1"}`); err != nil {
		t.Fatal(err)
	}
	token, err := server.ReadToken(t.Context(), "app/")
	if err != nil {
		t.Fatal(err)
	}
	return guarded{v1alpha1.SourceConsul, server.Addr, token, "app/db", `{"a":"1"}`, ca}
}

// guardedVault is Vault behind a listener that asks for certificates.
func guardedVault(t *testing.T) guarded {
	t.Helper()
	ca := newAuthority(t)
	vault := testenv.Vault(t)
	document := map[string]any{"data": map[string]string{"a": "1"}}
	if err := vault.Call(t.Context(), http.MethodPost, "secret/data/app/db", document, nil); err != nil {
		t.Fatal(err)
	}
	upstream, err := url.Parse(vault.Addr)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := ca.Server("vault")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca.PEM)
	listener := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(upstream))
	listener.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	listener.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	listener.StartTLS()
	t.Cleanup(listener.Close)
	return guarded{v1alpha1.SourceVault, listener.URL, vault.Token, "secret/app/db", `{"a":"1"}`, ca}
}

func newAuthority(t *testing.T) *testenv.Authority {
	t.Helper()
	ca, err := testenv.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// secret is a Secret of type kubernetes.io/tls with a client's certificate.
func secret(t *testing.T, ca *testenv.Authority) map[string][]byte {
	t.Helper()
	cert, key, err := ca.Client("hub")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": cert, "tls.key": key}
}

// secrets are the Secrets of the hub's cluster.
type secrets map[string]map[string][]byte

func (s secrets) Data(_ context.Context, namespace, name string) (map[string][]byte, error) {
	return s[namespace+"/"+name], nil
}

// certified is a class of such a store, as the hub serves it.
type certified struct {
	t       *testing.T
	store   guarded
	object  *v1alpha1.ClusterDynamicConfigClass
	secrets secrets
	classes *classes.Resolver
	feeds   *feed.Feeds
}

func startCertified(t *testing.T, s guarded) *certified {
	t.Helper()
	named := func(name string) *v1alpha1.SecretReference {
		return &v1alpha1.SecretReference{Namespace: "platform", Name: name}
	}
	object := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: "platform", UID: "1", Generation: 1},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: s.source, Endpoint: s.endpoint},
			TokenSecret: named("token"),
			TLS: &v1alpha1.ClassTLS{
				CASecret:         named("ca"),
				ClientCertSecret: &v1alpha1.CertificateReference{Namespace: "platform", Name: "client"},
			},
		},
	}
	opener, err := newOpener(&rest.Config{Host: s.endpoint})
	if err != nil {
		t.Fatal(err)
	}
	c := &certified{t: t, store: s, object: object, feeds: feed.New(feed.Config{Wake: func(feed.Subscriber) {}})}
	c.secrets = secrets{"platform/token": {"token": []byte(s.token)}, "platform/ca": {"ca.crt": s.ca.PEM}}
	c.classes = &classes.Resolver{
		Objects: fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(object).Build(),
		Secrets: c.secrets, Open: opener,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.feeds.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// read is what the document's Render and the class's status come to with what is in
// the Secrets now.
func (c *certified) read() (got feed.Snapshot, ready error) {
	c.t.Helper()
	found, err := c.classes.Find(c.t.Context(), classes.Ref{Kind: v1alpha1.ClassKindCluster, Name: "platform"})
	if err != nil {
		c.t.Fatal(err)
	}
	source, err := c.classes.Source(c.t.Context(), found)
	if err != nil {
		return feed.Snapshot{Err: err}, err
	}
	sub := feed.Subscriber{Cluster: "east", Namespace: "team", Name: "db"}
	gomega.NewWithT(c.t).Eventually(func() bool {
		got = c.feeds.Subscribe(sub, source, c.store.key, time.Hour)
		return got.Document != nil || got.Err != nil
	}).WithTimeout(storetest.Patience).Should(gomega.BeTrue())
	return got, c.feeds.Check(c.t.Context(), source)
}

// wantText wants the document.
func (c *certified) wantText() {
	c.t.Helper()
	got, ready := c.read()
	if got.Err != nil || ready != nil {
		c.t.Fatalf("fetched %v, ready %v", got.Err, ready)
	}
	if string(got.Document.Text) != c.store.text {
		c.t.Errorf("got %s", got.Document.Text)
	}
}

// wantRefusal wants no document, and the reason with a part of its text on both.
func (c *certified) wantRefusal(reason, text string) {
	c.t.Helper()
	got, ready := c.read()
	if got.Document != nil {
		c.t.Error("a document came back")
	}
	for what, err := range map[string]error{"fetched": got.Err, "ready": ready} {
		if store.ReasonOf(err) != reason || !strings.Contains(err.Error(), text) {
			c.t.Errorf("%s: %v with reason %q, want %s with %q", what, err, store.ReasonOf(err), reason, text)
		}
	}
}

func TestStores_AskForAClientCertificate(t *testing.T) {
	for name, start := range map[string]func(*testing.T) guarded{"consul": guardedConsul, "vault": guardedVault} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			right, another := secret(t, s.ca), secret(t, s.ca)
			for name, tc := range map[string]struct {
				client       map[string][]byte
				reason, text string
			}{
				"the right one is let in":                    {right, "", ""},
				"one of another authority is refused":        {secret(t, newAuthority(t)), v1alpha1.ReasonStoreTLSFailed, "the store ended the TLS connection: "},
				"a Secret that is not there is told":         {nil, v1alpha1.ReasonCredentialNotFound, "does not exist on the hub"},
				"a certificate that is no PEM is told":       {map[string][]byte{"tls.crt": []byte("canary"), "tls.key": right["tls.key"]}, v1alpha1.ReasonStoreTLSFailed, "do not belong together"},
				"a certificate with another's key is told":   {map[string][]byte{"tls.crt": right["tls.crt"], "tls.key": another["tls.key"]}, v1alpha1.ReasonStoreTLSFailed, "do not belong together"},
				"a Secret without the key is told, not used": {map[string][]byte{"tls.crt": right["tls.crt"]}, v1alpha1.ReasonCredentialNotFound, "does not exist on the hub"},
			} {
				t.Run(name, func(t *testing.T) {
					c := startCertified(t, s)
					c.secrets["platform/client"] = tc.client
					if tc.reason == "" {
						c.wantText()
						return
					}
					c.wantRefusal(tc.reason, tc.text)
				})
			}
			t.Run("a class without one is refused", func(t *testing.T) { withoutCertificate(t, s) })
			t.Run("a rotated one is shown at once", func(t *testing.T) { rotated(t, s) })
		})
	}
}

// withoutCertificate has the class name no client certificate.
func withoutCertificate(t *testing.T, s guarded) {
	t.Helper()
	c := startCertified(t, s)
	c.object.Spec.TLS.ClientCertSecret = nil
	c.classes.Objects = fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(c.object).Build()
	c.wantRefusal(v1alpha1.ReasonStoreTLSFailed, "the store ended the TLS connection: ")
}

// rotated changes the Secret under a hub that goes on: a certificate that is refused,
// one that is not, a renewed one, and one that is refused again, whose class must not
// live on the connections of the last.
func rotated(t *testing.T, s guarded) {
	t.Helper()
	c := startCertified(t, s)
	foreign := newAuthority(t)
	c.secrets["platform/client"] = secret(t, foreign)
	c.wantRefusal(v1alpha1.ReasonStoreTLSFailed, "the store ended the TLS connection: ")
	for range 2 {
		c.secrets["platform/client"] = secret(t, s.ca)
		c.wantText()
	}
	c.secrets["platform/client"] = secret(t, foreign)
	c.wantRefusal(v1alpha1.ReasonStoreTLSFailed, "the store ended the TLS connection: ")
	c.secrets["platform/client"] = secret(t, s.ca)
	c.wantText()
	gomega.NewWithT(t).Eventually(func() int { return c.feeds.Stats().Sources }).
		WithTimeout(storetest.Patience).Should(gomega.Equal(1), "clients of old certificates are left")
}

// The CA of a class is followed as its certificate is: one that does not sign the
// store's, one that is no PEM and one that is gone are told, and the right one is used
// at once.
func TestStores_FollowTheCAOfAClass(t *testing.T) {
	for name, start := range map[string]func(*testing.T) guarded{"consul": guardedConsul, "vault": guardedVault} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := startCertified(t, s)
			c.secrets["platform/client"] = secret(t, s.ca)
			right := map[string][]byte{"ca.crt": s.ca.PEM}
			for _, step := range []struct {
				ca     map[string][]byte
				reason string
			}{
				{map[string][]byte{"ca.crt": newAuthority(t).PEM}, v1alpha1.ReasonStoreTLSFailed},
				{right, ""},
				{map[string][]byte{"ca.crt": []byte("canary")}, v1alpha1.ReasonStoreTLSFailed},
				{right, ""},
				{nil, v1alpha1.ReasonStoreTLSFailed},
				{right, ""},
			} {
				c.secrets["platform/ca"] = step.ca
				if step.reason == "" {
					c.wantText()
				} else {
					c.wantRefusal(step.reason, "")
				}
			}
		})
	}
}
