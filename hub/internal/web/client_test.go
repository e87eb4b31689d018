package web_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/hub/internal/web"
)

// browser is a client that keeps cookies and follows nothing.
func (s *site) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answer is what a request came to.
type answer struct {
	status int
	header http.Header
	text   string
}

func (s *site) do(c *http.Client, req *http.Request, err error) answer {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// get asks for a page; headers are pairs.
func (s *site) get(c *http.Client, path string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, http.NoBody)
	for i := 0; i+1 < len(headers) && err == nil; i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.do(c, req, err)
}

// post sends a form, as the page at from does.
func (s *site) post(c *http.Client, path, from string, form url.Values) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", from)
	}
	return s.do(c, req, err)
}

// login logs in with a token.
func (s *site) login(c *http.Client, token string) answer {
	s.t.Helper()
	return s.post(c, "/login", s.url, url.Values{"token": {token}})
}

// viewer makes a ServiceAccount that may see the page, and returns a token of it.
func viewer(t *testing.T, name string) string {
	t.Helper()
	create(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"dynamic-config.rs"}, Resources: []string{"spokeclusters/renders"}, Verbs: []string{"get"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
		})
	may(t, name, true)
	return token(t, name, web.DefaultAudience)
}

// may waits until the API server says of an account whether it may see the page: it reads
// roles from a watch, which lags behind what is written.
func may(t *testing.T, name string, allowed bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:default:" + name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "get", Group: "dynamic-config.rs", Resource: "spokeclusters", Subresource: "renders",
			},
		}}
		err := hub.Client.Create(t.Context(), review)
		return review.Status.Allowed, err
	}).WithTimeout(patience).Should(gomega.Equal(allowed), "what %s may", name)
}

// token makes a ServiceAccount, unless it is there, and returns a token of it.
func token(t *testing.T, name string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	create(t, account)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := hub.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := hub.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}
