package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestLogin_ATokenIsTakenOnce(t *testing.T) {
	g := gomega.NewWithT(t)
	s, secret := newFleet(t), viewer(t, "once")
	browser := s.browser()

	away := s.get(browser, "/renders?cluster=prod-eu")
	g.Expect(away.status).To(gomega.Equal(http.StatusSeeOther))
	g.Expect(away.header.Get("Location")).To(gomega.Equal("/login?next=%2Frenders%3Fcluster%3Dprod-eu"))

	in := s.post(browser, "/login", s.url, url.Values{"token": {secret + "\n"}, "next": {"/renders?cluster=prod-eu"}})
	g.Expect(in.status).To(gomega.Equal(http.StatusSeeOther), in.text)
	g.Expect(in.header.Get("Location")).To(gomega.Equal("/renders?cluster=prod-eu"))
	cookie := in.header.Get("Set-Cookie")
	for _, want := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/", "Max-Age="} {
		g.Expect(cookie).To(gomega.ContainSubstring(want))
	}
	g.Expect(cookie).NotTo(gomega.ContainSubstring("Domain"))
	g.Expect(cookie).NotTo(gomega.ContainSubstring(secret[:20]))

	page := s.get(browser, "/renders?cluster=prod-eu")
	g.Expect(page.status).To(gomega.Equal(http.StatusOK))
	g.Expect(page.text).To(gomega.ContainSubstring("system:serviceaccount:default:once"))

	out := s.post(browser, "/logout", s.url, nil)
	g.Expect(out.status).To(gomega.Equal(http.StatusSeeOther))
	g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusSeeOther))
	value, _, _ := strings.Cut(cookie, ";")
	g.Expect(s.get(s.browser(), "/", "Cookie", value).status).To(gomega.Equal(http.StatusSeeOther), "the session is alive after the logout")

	g.Expect(logged.String()).NotTo(gomega.ContainSubstring(secret), "the log holds the token")
	g.Expect(s.audit.String()).To(gomega.And(
		gomega.ContainSubstring(`"verdict":"allowed","user":"system:serviceaccount:default:once","from":"127.0.0.1"`),
		gomega.Not(gomega.ContainSubstring(secret))))
}

func TestLogin_WhoIsTurnedAway(t *testing.T) {
	s := newSite(t)
	seen := viewer(t, "seen")
	// Who may read SpokeClusters may not, with that, read all tenants' Renders.
	create(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lister"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"dynamic-config.rs"}, Resources: []string{"spokeclusters"}, Verbs: []string{"get", "list", "watch"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "lister"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "lister"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "lister"}},
		})
	for name, tc := range map[string]struct {
		token  string
		status int
		says   string
	}{
		"nobody without a token":                             {"", http.StatusUnauthorized, "does not accept this token"},
		"nobody with a token that is made up":                {"made-up", http.StatusUnauthorized, "does not accept this token"},
		"nobody with a token longer than any":                {strings.Repeat("a", 17<<10), http.StatusUnauthorized, "does not accept this token"},
		"nobody with more than a token":                      {strings.Repeat("a", 64<<10), http.StatusUnauthorized, "does not accept this token"},
		"a viewer with a token that is for the API server":   {token(t, "seen"), http.StatusUnauthorized, "does not accept this token"},
		"a viewer with a token whose end was cut off":        {seen[:len(seen)-4], http.StatusUnauthorized, "does not accept this token"},
		"an account without rights":                          {token(t, "nothing", "dynamic-config-fleet-page"), http.StatusForbidden, "may not get spokeclusters/renders"},
		"an account that may list SpokeClusters and no more": {token(t, "lister", "dynamic-config-fleet-page"), http.StatusForbidden, "may not get spokeclusters/renders"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			s.clock.move(time.Minute) // the bound on logins is another test's
			browser := s.browser()
			got := s.login(browser, tc.token)
			g.Expect(got.status).To(gomega.Equal(tc.status))
			g.Expect(got.text).To(gomega.ContainSubstring(tc.says))
			g.Expect(got.header.Get("Set-Cookie")).To(gomega.BeEmpty())
			g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusSeeOther))
			if tc.token != "" && len(tc.token) < 20<<10 { // else the connection ends
				bearer := s.get(s.browser(), "/", "Authorization", "Bearer "+tc.token)
				g.Expect(bearer.status).To(gomega.Equal(tc.status))
				g.Expect(bearer.text).NotTo(gomega.ContainSubstring("<table"))
			}
		})
	}
	gomega.NewWithT(t).Expect(s.audit.String()).To(gomega.And(
		gomega.ContainSubstring(`"reason":"TokenRejected"`),
		gomega.ContainSubstring(`"verdict":"refused","user":"system:serviceaccount:default:lister","from":"127.0.0.1","reason":"Forbidden"`)))
}

// The page learns no token that could act.
func TestToken_OfThePageIsWorthNothingAtTheAPIServer(t *testing.T) {
	config := rest.AnonymousClientConfig(hub.Config)
	config.BearerToken = viewer(t, "worthless")
	c, err := testenv.NewClient(config)
	if err == nil {
		err = c.List(t.Context(), &v1alpha1.SpokeClusterList{})
	}
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
}

func TestBearer_ATokenWithEachRequest(t *testing.T) {
	g := gomega.NewWithT(t)
	s, secret := newFleet(t), viewer(t, "bearer")
	for range 30 { // more than the bound on reviews: one holds for a while
		page := s.get(s.browser(), "/", "Authorization", "bearer "+secret)
		g.Expect(page.status).To(gomega.Equal(http.StatusOK), page.text)
		g.Expect(page.header.Get("Set-Cookie")).To(gomega.BeEmpty())
	}
	g.Expect(strings.Count(s.audit.String(), `"user":"system:serviceaccount:default:bearer"`)).To(gomega.Equal(1))
	refused := s.get(s.browser(), "/", "Authorization", "Bearer x")
	g.Expect(refused.status).To(gomega.Equal(http.StatusUnauthorized))
	g.Expect(refused.header.Get("WWW-Authenticate")).To(gomega.HavePrefix("Bearer"))
	g.Expect(s.get(s.browser(), "/", "Authorization", "Basic x").status).To(gomega.Equal(http.StatusUnauthorized))
}

func TestSession_EndsWithTheRightWithTheTokenAndInTime(t *testing.T) {
	g := gomega.NewWithT(t)
	s, secret := newSite(t), viewer(t, "leaver")
	browser := s.browser()
	g.Expect(s.login(browser, secret).status).To(gomega.Equal(http.StatusSeeOther))
	g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusOK))

	t.Run("half an hour later", func(*testing.T) {
		s.clock.set(29 * time.Minute)
		g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusOK))
		s.clock.set(31 * time.Minute)
		g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusSeeOther))
	})
	t.Run("when the token ends", func(*testing.T) {
		s.clock.set(50 * time.Minute) // a token holds for an hour
		g.Expect(s.login(browser, secret).status).To(gomega.Equal(http.StatusSeeOther))
		s.clock.set(61 * time.Minute)
		g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusSeeOther))
		s.clock.set(0)
	})
	t.Run("a minute after the right is withdrawn", func(t *testing.T) {
		g.Expect(s.login(browser, secret).status).To(gomega.Equal(http.StatusSeeOther))
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "leaver"}}
		g.Expect(hub.Client.Delete(t.Context(), binding)).To(gomega.Succeed())
		may(t, "leaver", false)
		s.clock.move(61 * time.Second)
		g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusForbidden))
		g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusSeeOther), "it is not over")
	})
}

func TestLogin_NobodyIsLetInWhileTheAPIServerCannotBeAsked(t *testing.T) {
	g := gomega.NewWithT(t)
	s, secret := newSite(t), viewer(t, "patient")
	browser := s.browser()
	g.Expect(s.login(browser, secret).status).To(gomega.Equal(http.StatusSeeOther))
	s.api.down.Store(true)
	got := s.login(s.browser(), secret)
	g.Expect(got.status).To(gomega.Equal(http.StatusServiceUnavailable))
	g.Expect(got.text).To(gomega.And(gomega.ContainSubstring("cannot be asked who you are"), gomega.Not(gomega.ContainSubstring("connection refused"))))
	g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusOK), "who was let in a moment ago")
	s.clock.move(61 * time.Second)
	g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusServiceUnavailable))
	s.api.down.Store(false)
	g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusOK), "the session is over")
}

func TestLogin_IsBounded(t *testing.T) {
	g := gomega.NewWithT(t)
	s := newSite(t)
	s.clock.stop() // however long logins take
	var busy answer
	admitted := 0
	for range 40 {
		if got := s.login(s.browser(), "made-up"); got.status == http.StatusTooManyRequests {
			busy = got
		} else {
			admitted++
		}
	}
	g.Expect(busy.status).To(gomega.Equal(http.StatusTooManyRequests))
	g.Expect(busy.header.Get("Retry-After")).NotTo(gomega.BeEmpty())
	g.Expect(busy.text).To(gomega.ContainSubstring("Too many logins"))
	g.Expect(admitted).To(gomega.Equal(10))
	s.clock.move(time.Minute)
	g.Expect(s.login(s.browser(), "made-up").status).To(gomega.Equal(http.StatusUnauthorized))
}

func TestForms_OfAnotherSiteAreRefused(t *testing.T) {
	g := gomega.NewWithT(t)
	s, secret := newSite(t), viewer(t, "forms")
	browser := s.browser()
	got := s.post(browser, "/login", "https://elsewhere.example", url.Values{"token": {secret}})
	g.Expect(got.status).To(gomega.Equal(http.StatusForbidden))
	g.Expect(got.header.Get("Set-Cookie")).To(gomega.BeEmpty())
	g.Expect(s.login(browser, secret).status).To(gomega.Equal(http.StatusSeeOther))
	g.Expect(s.post(browser, "/logout", "https://elsewhere.example", nil).status).To(gomega.Equal(http.StatusForbidden))
	g.Expect(s.get(browser, "/").status).To(gomega.Equal(http.StatusOK))
}

func TestLogin_LeadsNowhereElse(t *testing.T) {
	s, secret := newSite(t), viewer(t, "nowhere")
	for next, want := range map[string]string{
		"/renders?page=2":           "/renders?page=2",
		"":                          "/",
		"https://elsewhere.example": "/",
		"//elsewhere.example":       "/",
		`/\elsewhere.example`:       "/",
		"javascript:alert(1)":       "/",
		"/%2F/elsewhere.example":    "/",
		"/login":                    "/",
	} {
		t.Run(next, func(t *testing.T) {
			s.clock.move(time.Minute)
			got := s.post(s.browser(), "/login", s.url, url.Values{"token": {secret}, "next": {next}})
			if location := got.header.Get("Location"); got.status != http.StatusSeeOther || location != want {
				t.Errorf("%d to %q, want %q", got.status, location, want)
			}
		})
	}
}

func TestHeaders_OfEveryAnswer(t *testing.T) {
	s, secret := newFleet(t), viewer(t, "headers")
	for _, path := range []string{"/", "/renders", "/login", "/nowhere", "/static/live.js", "/static/", "/static/../reader.go"} {
		got := s.get(s.browser(), path, "Authorization", "Bearer "+secret)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if !strings.Contains(got.header.Get(name), want) {
				t.Errorf("%s: %s is %q", path, name, got.header.Get(name))
			}
		}
		if strings.Contains(got.header.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s allows what is unsafe", path)
		}
	}
	for path, want := range map[string]int{"/nowhere": 404, "/static/": 404, "/static/live.js": 200, "/static/style.css": 200, "/static/icon.svg": 200} {
		if got := s.get(s.browser(), path); got.status != want {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"/renders", http.NoBody)
	if got := s.do(s.browser(), req, err); got.status != http.StatusMethodNotAllowed && got.status != http.StatusForbidden {
		t.Errorf("a PUT: %d", got.status)
	}
}
