package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// row is one figure.
type row struct {
	Phase string  `json:"phase"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// report collects figures and prints each at once.
type report struct {
	out  io.Writer
	rows []row
}

func (r *report) add(phase, what string, value float64, unit string) {
	r.rows = append(r.rows, row{phase, what, value, unit})
	fmt.Fprintf(r.out, "%-28s %-58s %14.2f %s\n", phase, what, value, unit)
}

func (r *report) seconds(phase, what string, d time.Duration) { r.add(phase, what, d.Seconds(), "s") }

// percentiles reports the median and the 99th percentile of durations.
func (r *report) percentiles(phase, what string, all []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(all)
	p50, p99 = all[(len(all)-1)/2], all[(len(all)-1)*99/100]
	r.add(phase, what+", p50", float64(p50.Microseconds())/1000, "ms")
	r.add(phase, what+", p99", float64(p99.Microseconds())/1000, "ms")
	return p50, p99
}

// write writes the figures as JSON, with what is to know of the machine.
func (r *report) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "cores": runtime.NumCPU(), "go": runtime.Version(), "rows": r.rows,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600)
}

func (r *rig) reportUsage(ctx context.Context, phase, when string) error {
	u, err := r.stage.Hub.Usage(ctx)
	if err != nil {
		return err
	}
	r.report.add(phase, "hub's resident memory, "+when, u.Memory/(1<<20), "MiB")
	r.report.add(phase, "hub's goroutines, "+when, u.Goroutines, "")
	r.report.add(phase, "hub's file descriptors, "+when, u.Files, "")
	return nil
}
