package web

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/hub/internal/audit"
)

const (
	// maxConnections at once; further ones wait to be accepted.
	maxConnections = 256
	// The times that a request may take.
	headerTimeout, readTimeout, writeTimeout, idleTimeout = 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute
	// maxHeader holds a token and what browsers send.
	maxHeader = 32 << 10
	// maxBody holds a token in a form.
	maxBody = 3 * maxToken
	// stopTimeout is how long requests may still take when the hub ends.
	stopTimeout = time.Second
)

// DefaultAudience is what tokens are meant for that the page accepts. It is none of the
// API server's, so that the page is shown no token that could act there.
const DefaultAudience = "dynamic-config-fleet-page"

//go:embed static
var static embed.FS

// Config says what a Server shows, and to whom.
type Config struct {
	Reader *Reader
	// Reviews asks the API server about users.
	Reviews Creator
	// Audience of the tokens; the API server's own when empty.
	Audience string
	// Audit takes what is decided about tokens; nil for none.
	Audit *audit.Log
	// Now is the clock.
	Now func() time.Time
}

// Server is the fleet page.
type Server struct {
	reader *Reader
	gate   *gate
}

// New returns a Server.
func New(cfg Config) *Server {
	return &Server{reader: cfg.Reader, gate: newGate(&cfg)}
}

// Handler answers requests. It must be served over TLS alone: a session's cookie and
// tokens pass through it.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.guarded(s.clusters))
	mux.HandleFunc("GET /renders", s.guarded(s.renders))
	mux.HandleFunc("GET /renders/{cluster}/{namespace}/{name}", s.guarded(s.path))
	mux.HandleFunc("GET /login", s.loginForm)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.Handle("GET /static/{file}", http.FileServerFS(static))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, "There is no such page.")
	})
	// A form of another site must not log anybody in or out.
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// secured sets what every answer carries. No page holds a script or style of its own,
// and nothing is loaded from elsewhere.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// Serve serves the page on a listener, over TLS, until the context ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) error {
	logger := ctrl.LoggerFrom(ctx).WithName("web")
	server := &http.Server{
		Handler:           s.Handler(),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: certificate},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(quiet{logger}, "", 0),
		BaseContext:    func(net.Listener) context.Context { return ctrl.LoggerInto(context.WithoutCancel(ctx), logger) },
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(netutil.LimitListener(listener, maxConnections), "", "") }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // what a request still wrote is lost
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// quiet takes what net/http says of connections: strangers cause it, a browser that
// does not know the hub's authority among them.
type quiet struct{ log logr.Logger }

func (q quiet) Write(line []byte) (int, error) {
	q.log.V(1).Info("Connection failed", "cause", plain(string(line)))
	return len(line), nil
}
