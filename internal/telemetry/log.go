package telemetry

import (
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
)

// The formats of log lines.
const (
	FormatJSON = "json"
	FormatText = "text"
)

// Log keys that mean the same everywhere.
const (
	KeyCluster = "cluster"
	KeyClass   = "class"
	KeyRender  = "render"
	KeyTarget  = "target"
	KeyReason  = "reason"
)

// LogConfig says how logs are written.
type LogConfig struct {
	// Format is FormatJSON (when empty) or FormatText.
	Format string
	// Level is debug, info (when empty), warn or error.
	Level string
}

// BindFlags adds --log-format and --log-level to a flag set.
func (c *LogConfig) BindFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.Format, "log-format", FormatJSON, "format of log lines: json or text")
	flags.StringVar(&c.Level, "log-level", "info", "lowest level that is logged: debug, info, warn or error")
}

// floored is a level that never goes below debug: beneath it client-go logs the
// bodies of requests and answers, and with them the data of Secrets.
type floored struct{ level *slog.LevelVar }

// Level is the level, debug at the lowest.
func (f floored) Level() slog.Level { return max(f.level.Level(), slog.LevelDebug) }

// NewLogger returns a logger that writes to w, and its level, which may be set at
// any time; below debug it counts as debug. It fails when the format or the level is none of the known ones.
func NewLogger(w io.Writer, c LogConfig) (logr.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if c.Level != "" {
		if err := level.UnmarshalText([]byte(c.Level)); err != nil || level.Level() < slog.LevelDebug {
			return logr.Logger{}, nil, fmt.Errorf("log level %q: want debug, info, warn or error", c.Level)
		}
	}
	options := &slog.HandlerOptions{Level: floored{level}}
	var handler slog.Handler
	switch c.Format {
	case "", FormatJSON:
		handler = slog.NewJSONHandler(w, options)
	case FormatText:
		handler = slog.NewTextHandler(w, options)
	default:
		return logr.Logger{}, nil, fmt.Errorf("log format %q: want json or text", c.Format)
	}
	return logr.FromSlogHandler(handler), level, nil
}
