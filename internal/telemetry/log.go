package telemetry

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// The formats of log lines.
const (
	FormatJSON = "json"
	FormatText = "text"
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

// parseLevel reads the name of a level.
func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil || level < slog.LevelDebug {
		return level, fmt.Errorf("log level %q: want debug, info, warn or error", text)
	}
	return level, nil
}

// readable puts the type in place of what JSON cannot hold, such as the functions that
// controller-runtime logs as sources: the handler would write an error there.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	value := a.Value.Any()
	if _, isError := value.(error); isError {
		return a
	}
	if _, err := json.Marshal(value); err != nil {
		a.Value = slog.StringValue(fmt.Sprintf("%T", value))
	}
	return a
}

// NewLogger returns a logger that writes to w, and its level, which may be set at
// any time; below debug it counts as debug. It fails when the format or the level is none of the known ones.
func NewLogger(w io.Writer, c LogConfig) (logr.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if c.Level != "" {
		wanted, err := parseLevel(c.Level)
		if err != nil {
			return logr.Logger{}, nil, err
		}
		level.Set(wanted)
	}
	options := &slog.HandlerOptions{Level: floored{level}, ReplaceAttr: readable}
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
