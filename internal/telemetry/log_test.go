package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/internal/telemetry"
)

func TestNewLogger_JSON(t *testing.T) {
	var out bytes.Buffer
	log, level, err := telemetry.NewLogger(&out, telemetry.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("State changed", "cluster", "east")
	log.V(1).Info("A detail below the level")

	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("want one JSON line, got %q: %v", out.String(), err)
	}
	if line["msg"] != "State changed" || line["cluster"] != "east" || line["level"] != "INFO" {
		t.Errorf("unexpected line %v", line)
	}

	out.Reset()
	level.Set(slog.LevelDebug)
	log.V(1).Info("A detail")
	if !strings.Contains(out.String(), "A detail") {
		t.Errorf("a lowered level must apply at once, got %q", out.String())
	}
}

func TestNewLogger_Config(t *testing.T) {
	cases := map[string]struct {
		config  telemetry.LogConfig
		wantErr string
	}{
		"text at warn is fine":           {config: telemetry.LogConfig{Format: "text", Level: "warn"}},
		"an unknown format is named":     {config: telemetry.LogConfig{Format: "xml"}, wantErr: `log format "xml"`},
		"a level below debug is refused": {config: telemetry.LogConfig{Level: "DEBUG-4"}, wantErr: `log level "DEBUG-4"`},
		"an unknown level is named":      {config: telemetry.LogConfig{Level: "loud"}, wantErr: `log level "loud"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := telemetry.NewLogger(&bytes.Buffer{}, tc.config)
			if tc.wantErr == "" && err != nil {
				t.Fatal(err)
			}
			if tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("want error with %q, got %v", tc.wantErr, err)
			}
		})
	}
}

func TestLogConfig_BindFlags(t *testing.T) {
	var config telemetry.LogConfig
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	config.BindFlags(flags)
	if err := flags.Parse([]string{"--log-format=text", "--log-level=debug"}); err != nil {
		t.Fatal(err)
	}
	if want := (telemetry.LogConfig{Format: "text", Level: "debug"}); config != want {
		t.Errorf("want %v, got %v", want, config)
	}
}

func TestNewLogger_NeverBelowDebug(t *testing.T) {
	var out bytes.Buffer
	log, level, err := telemetry.NewLogger(&out, telemetry.LogConfig{Level: "debug"})
	if err != nil {
		t.Fatal(err)
	}
	level.Set(slog.LevelDebug - 8)
	// client-go logs bodies from V(8) on.
	if log.V(8).Enabled() {
		t.Error("a level below debug lets the bodies of requests into the log")
	}
	if !log.V(1).Enabled() {
		t.Error("debug no longer shows details")
	}
}

func TestNewLogger_ValuesThatJSONCannotHold(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  string
	}{
		"a function is told by its type": {func() {}, "func()"},
		"so is what holds one":           {struct{ F func() }{}, "struct { F func() }"},
		"an error keeps its words":       {errors.New("no answer"), "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log, _, err := telemetry.NewLogger(&out, telemetry.LogConfig{})
			if err != nil {
				t.Fatal(err)
			}
			log.Info("Starting", "source", tc.value)
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if line["source"] != tc.want {
				t.Errorf("want %q, got %v", tc.want, line["source"])
			}
		})
	}
}
