package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// view makes the view of a page from the state of the fleet.
type view func(ctx context.Context, r *http.Request, s *State) (name string, body any, err error)

// guarded shows a page to who may see it.
func (s *Server) guarded(viewOf view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		visitor, err := s.admit(r)
		if err != nil {
			s.turnAway(w, r, err)
			return
		}
		page, err := s.page(r, viewOf)
		if err != nil {
			ctrl.LoggerFrom(r.Context()).Error(err, "Reading the fleet failed")
			problem(w, http.StatusServiceUnavailable, "The hub cannot read its own state. Its log says why.")
			return
		}
		page.User = plain(visitor.user.Username)
		show(w, http.StatusOK, page)
	}
}

func (s *Server) page(r *http.Request, viewOf view) (Page, error) {
	state, err := s.reader.State(r.Context())
	if err != nil {
		return Page{}, err
	}
	name, body, err := viewOf(r.Context(), r, state)
	return Page{Name: name, Path: r.URL.Path, Read: at(state.Now), Replica: state.Replica, Body: body}, err
}

// admit says who asks, by the token of the request or the session of a login.
func (s *Server) admit(r *http.Request) (*visit, error) {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return s.gate.bearer(r.Context(), strings.TrimSpace(token), r.RemoteAddr)
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil, errUnknown
	}
	return s.gate.resume(r.Context(), cookie.Value)
}

// turnAway sends a browser to log in, and tells others what is the matter.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errUnknown) && r.Header.Get("Authorization") == "" {
		http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return
	}
	status, text := verdict(r.Context(), w, err)
	problem(w, status, text)
}

// verdict is what a refusal is told as.
func verdict(ctx context.Context, w http.ResponseWriter, err error) (status int, text string) {
	var busy *busyError
	switch {
	case errors.Is(err, errUnknown):
		w.Header().Set("WWW-Authenticate", `Bearer realm="fleet page"`)
		return http.StatusUnauthorized, sentence(err)
	case errors.Is(err, errForbidden):
		return http.StatusForbidden, sentence(err)
	case errors.As(err, &busy):
		w.Header().Set("Retry-After", strconv.Itoa(int(busy.retry.Seconds())+1))
		return http.StatusTooManyRequests, sentence(err)
	}
	ctrl.LoggerFrom(ctx).Error(err, "Asking the API server about a user failed")
	return http.StatusServiceUnavailable, "The API server cannot be asked who you are. Try again later."
}

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (s *Server) clusters(_ context.Context, r *http.Request, state *State) (string, any, error) {
	return "clusters", viewClusters(state, plain(r.FormValue("name")), number(r)), nil
}

func (s *Server) renders(_ context.Context, r *http.Request, state *State) (string, any, error) {
	cluster := strings.TrimSpace(r.FormValue("cluster"))
	if cluster == "" {
		return "renders", viewRenders(state, number(r)), nil
	}
	renders := s.reader.Renders(cluster)
	return "renders", viewCluster(state, cluster, renders, number(r)), nil
}

func (s *Server) path(ctx context.Context, r *http.Request, state *State) (string, any, error) {
	cluster, id := r.PathValue("cluster"), fleet.ID{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	render, status, err := s.reader.Render(ctx, cluster, id)
	if err != nil {
		return "", nil, err
	}
	return "path", viewPath(state, cluster, id, render, status), nil
}

// number is that of the page asked for.
func number(r *http.Request) int {
	n, _ := strconv.Atoi(r.FormValue("page")) // 0 for none, which is the first
	return n
}
