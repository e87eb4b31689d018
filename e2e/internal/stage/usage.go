package stage

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Usage is what a hub process uses, as it says itself.
type Usage struct {
	// Memory is resident, Heap what objects in use and not yet collected take: bytes.
	Memory, Heap float64
	Goroutines   float64
	// CPU is the processor time so far, in seconds.
	CPU float64
	// Files are open file descriptors.
	Files float64
}

// Usage asks the hub process.
func (h *Hub) Usage(ctx context.Context) (Usage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.MetricsURL, http.NoBody)
	if err != nil {
		return Usage{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Usage{}, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return Usage{}, fmt.Errorf("read the hub's metrics: %w", err)
	}
	return Usage{
		Memory: value(families, "process_resident_memory_bytes"), Heap: value(families, "go_memstats_heap_inuse_bytes"),
		Goroutines: value(families, "go_goroutines"),
		CPU:        value(families, "process_cpu_seconds_total"), Files: value(families, "process_open_fds"),
	}, nil
}

// value adds up the series of a metric.
func value(families map[string]*dto.MetricFamily, name string) (sum float64) {
	for _, m := range families[name].GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}
