package telemetry_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/internal/telemetry"
)

func TestServeLevel(t *testing.T) {
	for name, tc := range map[string]struct {
		method, body, from string
		code               int
		answer             string
		level              slog.Level
	}{
		"a reader sees the level":                   {http.MethodGet, "", "127.0.0.1:4", http.StatusOK, "INFO", slog.LevelInfo},
		"a new level counts at once":                {http.MethodPut, "debug\n", "127.0.0.1:4", http.StatusOK, "DEBUG", slog.LevelDebug},
		"IPv6 has a loopback too":                   {http.MethodPut, "warn", "[::1]:4", http.StatusOK, "WARN", slog.LevelWarn},
		"a level below debug is refused":            {http.MethodPut, "debug-4", "127.0.0.1:4", http.StatusBadRequest, "want debug", slog.LevelInfo},
		"an unknown level is refused":               {http.MethodPut, "loud", "127.0.0.1:4", http.StatusBadRequest, "want debug", slog.LevelInfo},
		"a body without end is not read to its end": {http.MethodPut, strings.Repeat("debug", 1000), "127.0.0.1:4", http.StatusBadRequest, "want debug", slog.LevelInfo},
		"nobody sets it over the network":           {http.MethodPut, "debug", "10.0.0.7:4", http.StatusForbidden, "loopback", slog.LevelInfo},
		"nobody reads it over the network":          {http.MethodGet, "", "[2001:db8::1]:4", http.StatusForbidden, "loopback", slog.LevelInfo},
		"another method is refused":                 {http.MethodDelete, "", "127.0.0.1:4", http.StatusMethodNotAllowed, "GET or PUT", slog.LevelInfo},
	} {
		t.Run(name, func(t *testing.T) {
			level := new(slog.LevelVar)
			request := httptest.NewRequestWithContext(t.Context(), tc.method, telemetry.LevelPath, strings.NewReader(tc.body))
			request.RemoteAddr = tc.from
			answer := httptest.NewRecorder()
			telemetry.ServeLevel(level).ServeHTTP(answer, request)
			if answer.Code != tc.code || !strings.Contains(answer.Body.String(), tc.answer) {
				t.Errorf("got %d %q", answer.Code, answer.Body.String())
			}
			if level.Level() != tc.level {
				t.Errorf("the level is %v", level.Level())
			}
		})
	}
}
