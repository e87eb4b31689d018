package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// LevelPath is where a process serves its log level, beside its metrics.
const LevelPath = "/debug/loglevel"

// maxLevel bounds what is read of a request: the longest level has five letters.
const maxLevel = 16

// MetricsServer serves the metrics of a process on an address ("0" for none) and, unless
// level is nil, its log level.
func MetricsServer(address string, level *slog.LevelVar) metricsserver.Options {
	options := metricsserver.Options{BindAddress: address}
	if level != nil {
		options.ExtraHandlers = map[string]http.Handler{LevelPath: ServeLevel(level)}
	}
	return options
}

// ServeLevel shows the log level of a process (GET) and sets it (PUT, the level as the
// body), to clients on the loopback interface alone: those are who may forward a port
// of the pod or enter it.
func ServeLevel(level *slog.LevelVar) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r) {
			http.Error(w, "only from the loopback interface: use kubectl port-forward", http.StatusForbidden)
			return
		}
		switch r.Method {
		case http.MethodGet:
		case http.MethodPut:
			if err := setLevel(level, io.LimitReader(r.Body, maxLevel)); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		default:
			w.Header().Set("Allow", "GET, PUT")
			http.Error(w, "GET or PUT", http.StatusMethodNotAllowed)
			return
		}
		_, _ = fmt.Fprintln(w, level.Level()) // a client that went away needs no answer
	})
}

func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}

func setLevel(level *slog.LevelVar, body io.Reader) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	wanted, err := parseLevel(string(text))
	if err != nil {
		return err
	}
	level.Set(wanted)
	return nil
}
