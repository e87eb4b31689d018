package main

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// usage is what the hub process uses, as it says itself.
type usage struct {
	memory     float64 // bytes of resident memory
	goroutines float64
	cpu        float64 // seconds of processor time so far
	files      float64 // open file descriptors
}

func (r *rig) usage(ctx context.Context) (usage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.stage.Hub.MetricsURL, http.NoBody)
	if err != nil {
		return usage{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return usage{}, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return usage{}, fmt.Errorf("read the hub's metrics: %w", err)
	}
	return usage{
		memory: value(families, "process_resident_memory_bytes"), goroutines: value(families, "go_goroutines"),
		cpu: value(families, "process_cpu_seconds_total"), files: value(families, "process_open_fds"),
	}, nil
}

func value(families map[string]*dto.MetricFamily, name string) (sum float64) {
	for _, m := range families[name].GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

func (r *rig) reportUsage(ctx context.Context, phase, when string) error {
	u, err := r.usage(ctx)
	if err != nil {
		return err
	}
	r.report.add(phase, "hub's resident memory, "+when, u.memory/(1<<20), "MiB")
	r.report.add(phase, "hub's goroutines, "+when, u.goroutines, "")
	r.report.add(phase, "hub's file descriptors, "+when, u.files, "")
	return nil
}
