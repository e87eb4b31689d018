package version

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a gauge that is always 1 and says by its labels which build of a
// component serves it.
func Metric(component string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dynamicconfig_build_info",
		Help: "Which build this is.",
		ConstLabels: prometheus.Labels{
			"component": component, "version": Version, "commit": Commit, "date": Date, "goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })
}
