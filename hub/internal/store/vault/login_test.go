package vault_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestLogin_Token(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	config := func(token string) vault.Config { return vault.Config{Endpoint: server.Addr, Credential: token} }

	t.Run("a token reads what it may, and is told what it may not", func(t *testing.T) {
		token := server.token(t, map[string]any{"policies": []string{"app"}})
		client := open(t, config(token))
		wantText(t, client, "secret/app/db", `{"a":"1"}`)
		_, err := client.Fetch(t.Context(), "secret/other")
		wantFailure(t, err, v1alpha1.ReasonKeyForbidden, token)
	})
	t.Run("a token that may not look itself up reads all the same", func(t *testing.T) {
		token := server.token(t, map[string]any{"policies": []string{"app"}, "no_default_policy": true})
		wantText(t, open(t, config(token)), "secret/app/db", `{"a":"1"}`)
	})
	t.Run("an unknown token is rejected", func(t *testing.T) {
		_, err := open(t, config("hvs."+canary)).Fetch(t.Context(), "secret/app/db")
		wantFailure(t, err, v1alpha1.ReasonCredentialRejected)
	})
	t.Run("a token that is revoked is rejected", func(t *testing.T) {
		token := server.token(t, map[string]any{"policies": []string{"app"}})
		client := open(t, config(token))
		wantText(t, client, "secret/app/db", `{"a":"1"}`)
		server.call(t, http.MethodPost, "auth/token/revoke", map[string]string{"token": token}, nil)
		_, err := client.Fetch(t.Context(), "secret/app/db")
		wantFailure(t, err, v1alpha1.ReasonCredentialRejected, token)
	})
	t.Run("a given token is not revoked", func(t *testing.T) {
		token := server.token(t, map[string]any{"policies": []string{"app"}})
		client := open(t, config(token))
		wantText(t, client, "secret/app/db", `{"a":"1"}`)
		if err := client.Close(); err != nil || !server.isValid(t, token) {
			t.Errorf("close: %v; the token is valid: %t", err, server.isValid(t, token))
		}
	})
	t.Run("a given token lives on while it is used", func(t *testing.T) {
		// On a machine that is slower than a token's period nobody uses it in time.
		for period := 2 * time.Second; !livesOn(t, server, period); period *= 2 {
			if period > time.Minute {
				t.Fatal("the machine is too slow to use a token")
			}
		}
	})
}

// livesOn uses a token of a period until it was renewed three times. It reports false
// where the token was left alone for long, as a token is that nobody uses.
func livesOn(t *testing.T, server server, period time.Duration) bool {
	t.Helper()
	through := before(t, server.Addr)
	token := server.token(t, map[string]any{"policies": []string{"app"}, "period": period.String()})
	client := open(t, vault.Config{Endpoint: through.URL, Credential: token})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for used := time.Now(); through.count("renew") < 3; <-tick.C {
		_, err := client.Fetch(t.Context(), "secret/app/db")
		if time.Since(used) > period/8 { // of the third that is left when it is renewed
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		used = time.Now()
	}
	return true
}

func TestLogin_AppRole(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	roleID, secretID := server.appRole(t, "app", nil)
	login := &vault.Login{Mount: "approle", RoleID: roleID}
	through := before(t, server.Addr)
	client := open(t, vault.Config{Endpoint: through.URL, Credential: secretID, Login: login})
	wantText(t, client, "secret/app/db", `{"a":"1"}`)
	_, err := client.Fetch(t.Context(), "secret/other")
	wantFailure(t, err, v1alpha1.ReasonKeyForbidden, secretID, through.used()[0])

	t.Run("its token is revoked at the end", func(t *testing.T) {
		tokens := through.used()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		for _, token := range tokens {
			if server.isValid(t, token) {
				t.Error("a token of the client outlives it")
			}
		}
	})
	t.Run("a wrong secret ID is rejected, once for many", func(t *testing.T) {
		through := before(t, server.Addr)
		wrong := open(t, vault.Config{Endpoint: through.URL, Credential: canary, Login: login})
		for range 10 {
			_, err := wrong.Fetch(t.Context(), "secret/app/db")
			wantFailure(t, err, v1alpha1.ReasonCredentialRejected)
		}
		if got := through.count("login"); got != 1 {
			t.Errorf("%d logins, want 1", got)
		}
	})
	t.Run("a login that is not there is told", func(t *testing.T) {
		nowhere := open(t, vault.Config{Endpoint: server.Addr, Credential: secretID, Login: &vault.Login{Mount: "none", RoleID: roleID}})
		_, err := nowhere.Fetch(t.Context(), "secret/app/db")
		wantFailure(t, err, v1alpha1.ReasonCredentialRejected, secretID)
		if !strings.Contains(err.Error(), "the mount in spec.vault.auth") {
			t.Errorf("got %q", err)
		}
	})
}

func TestLogin_Kubernetes(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	cluster := testenv.ControlPlane(t, testenv.WithoutControllers)
	reviewer, hub, other := account(t, cluster, "reviewer"), account(t, cluster, "hub"), account(t, cluster, "other")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reviewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "reviewer"}},
	}
	if err := cluster.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	server.call(t, http.MethodPost, "auth/kubernetes/config", map[string]any{
		"kubernetes_host": cluster.Config.Host, "kubernetes_ca_cert": string(cluster.Config.CAData), "token_reviewer_jwt": reviewer,
	}, nil)
	server.call(t, http.MethodPost, "auth/kubernetes/role/fleet", map[string]any{
		"bound_service_account_names": "hub", "bound_service_account_namespaces": metav1.NamespaceDefault, "token_policies": "app",
	}, nil)
	login := &vault.Login{Mount: "kubernetes", Role: "fleet"}
	// The API server may take a moment to know the binding. A client remembers a
	// refusal, so each attempt has one of its own.
	gomega.NewWithT(t).Eventually(func() error {
		_, err := open(t, vault.Config{Endpoint: server.Addr, Credential: hub, Login: login}).Fetch(t.Context(), "secret/app/db")
		return err
	}).WithTimeout(time.Minute).Should(gomega.Succeed())
	wantText(t, open(t, vault.Config{Endpoint: server.Addr, Credential: hub, Login: login}), "secret/app/db", `{"a":"1"}`)

	_, err := open(t, vault.Config{Endpoint: server.Addr, Credential: other, Login: login}).Fetch(t.Context(), "secret/app/db")
	wantFailure(t, err, v1alpha1.ReasonCredentialRejected, other)
	_, err = open(t, vault.Config{Endpoint: server.Addr, Credential: hub, Login: &vault.Login{Mount: "kubernetes", Role: "none"}}).Fetch(t.Context(), "secret/app/db")
	wantFailure(t, err, v1alpha1.ReasonCredentialRejected, hub)
}

// account makes a ServiceAccount and answers a token of it.
func account(t *testing.T, cluster *testenv.Cluster, name string) string {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
	err := cluster.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta})
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	config, err := cluster.ServiceAccountConfig(t.Context(), meta.Namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}

func TestLogin_JWT(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	server.call(t, http.MethodPost, "auth/jwt/config", map[string]any{
		"jwt_validation_pubkeys": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
	}, nil)
	server.call(t, http.MethodPost, "auth/jwt/role/fleet", map[string]any{
		"role_type": "jwt", "user_claim": "sub", "bound_audiences": "vault", "bound_subject": "hub", "token_policies": "app",
	}, nil)
	login := &vault.Login{Mount: "jwt", Role: "fleet"}
	wantText(t, open(t, vault.Config{Endpoint: server.Addr, Credential: sign(t, key, "hub"), Login: login}), "secret/app/db", `{"a":"1"}`)
	stranger := sign(t, key, "stranger")
	_, err = open(t, vault.Config{Endpoint: server.Addr, Credential: stranger, Login: login}).Fetch(t.Context(), "secret/app/db")
	wantFailure(t, err, v1alpha1.ReasonCredentialRejected, stranger)
}

// sign makes a JSON Web Token for an hour.
func sign(t *testing.T, key *ecdsa.PrivateKey, subject string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	claims, err := json.Marshal(map[string]any{
		"sub": subject, "aud": "vault", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	text := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encode(signature)
}

func TestSession_AForbiddenKeyCostsOneNewLogin(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.put(t, "app/ok", map[string]string{"a": "2"})
	server.allow(t, "app", "app/")
	roleID, secretID := server.appRole(t, "app", nil)
	through := before(t, server.Addr)
	client := open(t, vault.Config{Endpoint: through.URL, Credential: secretID, Login: &vault.Login{Mount: "approle", RoleID: roleID}})
	wantText(t, client, "secret/app/db", `{"a":"1"}`)

	server.allow(t, "app", "app/ok")
	for range 5 {
		_, err := client.Fetch(t.Context(), "secret/app/db")
		wantFailure(t, err, v1alpha1.ReasonKeyForbidden, secretID)
	}
	wantText(t, client, "secret/app/ok", `{"a":"2"}`)
	if logins, revoked := through.count("login"), through.count("revoke"); logins != 2 || revoked != 1 {
		t.Errorf("%d logins and %d revocations, want the first, one more, and the first's end", logins, revoked)
	}
	server.allow(t, "app", "app/")
	wantText(t, client, "secret/app/db", `{"a":"1"}`)
	if got := through.count("login"); got != 2 {
		t.Errorf("%d logins, want no more", got)
	}
}

func TestSession_ARoleThatGetsAPolicyIsTakenUp(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "later", "app/")
	server.allow(t, "app", "elsewhere/")
	roleID, secretID := server.appRole(t, "app", nil)
	client := open(t, vault.Config{Endpoint: server.Addr, Credential: secretID, Login: &vault.Login{Mount: "approle", RoleID: roleID}, KVVersion: 2})
	wantReason(t, client, "secret/elsewhere/none", v1alpha1.ReasonDocumentNotFound)
	// The token's policies are those of its login: only a new one has the new policy.
	server.call(t, http.MethodPost, "auth/approle/role/app", map[string]any{"token_policies": "app,later"}, nil)
	wantText(t, client, "secret/app/db", `{"a":"1"}`)
}

func TestSession_SurvivesAStoreThatIsDownAcrossExpiry(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	roleID, secretID := server.appRole(t, "app", map[string]any{"token_ttl": "2s", "token_explicit_max_ttl": "2s"})
	through := before(t, server.Addr)
	client := open(t, vault.Config{Endpoint: through.URL, Credential: secretID, Login: &vault.Login{Mount: "approle", RoleID: roleID}})
	wantText(t, client, "secret/app/db", `{"a":"1"}`)
	first := through.used()[0]
	// The next token holds for as long as a slow machine takes to read with it.
	server.call(t, http.MethodPost, "auth/approle/role/app", map[string]any{"token_ttl": "1h", "token_explicit_max_ttl": 0}, nil)

	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	var err error // of the last fetch
	for expiry := time.Now().Add(3 * time.Second); time.Now().Before(expiry); {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err = client.Fetch(ctx, "secret/app/db")
		cancel()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused store answered: %v", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	wantText(t, client, "secret/app/db", `{"a":"1"}`)
	used := through.used()
	if last := used[len(used)-1]; last == first || server.isValid(t, first) {
		t.Errorf("the document was read with the first token: %t; it is still valid: %t", last == first, server.isValid(t, first))
	}
}

func TestClient_ASealedStoreIsToldAndRecovers(t *testing.T) {
	server := start(t)
	server.put(t, "app/db", map[string]string{"a": "1"})
	server.allow(t, "app", "app/")
	roleID, secretID := server.appRole(t, "app", nil)
	cfg := vault.Config{Endpoint: server.Addr, Credential: secretID, Login: &vault.Login{Mount: "approle", RoleID: roleID}}
	inUse, fresh := open(t, cfg), open(t, cfg)
	wantText(t, inUse, "secret/app/db", `{"a":"1"}`)
	if err := server.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantReason(t, inUse, "secret/app/db", v1alpha1.ReasonStoreSealed)
	wantReason(t, fresh, "secret/app/db", v1alpha1.ReasonStoreSealed)
	if err := server.Unseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, client := range []*vault.Client{inUse, fresh} {
		gomega.NewWithT(t).Eventually(func() error {
			_, err := client.Fetch(t.Context(), "secret/app/db")
			return err
		}).WithTimeout(time.Minute).Should(gomega.Succeed())
	}
}
