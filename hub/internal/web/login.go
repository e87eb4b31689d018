package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// cookieName has a prefix by which browsers keep the cookie to this host and to TLS.
const cookieName = "__Host-dynamic-config-fleet"

// loginView is the page that asks for a token.
type loginView struct {
	Next, Audience, Problem string
}

func (s *Server) loginForm(w http.ResponseWriter, r *http.Request) {
	s.showLogin(w, http.StatusOK, local(r.FormValue("next")), "")
}

func (s *Server) showLogin(w http.ResponseWriter, status int, next, problem string) {
	show(w, status, Page{Name: "login", Body: loginView{Next: next, Audience: s.gate.reviewer.audience, Problem: problem}})
}

// login takes a token and gives a session for it. The token is not kept.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	next := local(r.PostFormValue("next"))
	id, v, err := s.gate.login(r.Context(), strings.TrimSpace(r.PostFormValue("token")), r.RemoteAddr)
	if err != nil {
		status, text := verdict(r.Context(), w, err)
		s.showLogin(w, status, next, text)
		return
	}
	setCookie(w, id, v.ends.Sub(s.gate.now()))
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: see local
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		s.gate.logout(cookie.Value)
	}
	setCookie(w, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func setCookie(w http.ResponseWriter, id string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/", MaxAge: max(int(life.Seconds()), -1),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
}

// local keeps a link within the page: the first page for any other.
func local(next string) string {
	to, err := url.Parse(next)
	if err != nil || to.IsAbs() || to.Host != "" || !strings.HasPrefix(to.Path, "/") || strings.HasPrefix(to.Path, "//") ||
		strings.Contains(next, `\`) || to.Path == "/login" {
		return "/"
	}
	return to.RequestURI()
}
