// Command bench measures a real hub process with a real API server, a real Consul and
// mutual TLS: one real agent, and as many fake spokes as wanted, which speak the real
// protocol. It prints a table and writes it as JSON. It judges nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	var (
		o      options
		phases string
	)
	flag.IntVar(&o.spokes, "spokes", 1000, "fake spokes of the large fleet")
	flag.IntVar(&o.renders, "renders", 100, "Renders of each fake spoke")
	flag.IntVar(&o.changes, "changes", 100, "changes whose way is timed")
	flag.StringVar(&o.out, "out", filepath.Join("out", "bench.json"), "file for the table as JSON")
	flag.StringVar(&o.profiles, "profiles", "", "folder for profiles of the hub with the large fleet; none when empty")
	flag.StringVar(&phases, "phases", "latency,periodic,fleet,curve", "what to measure")
	flag.Parse()
	o.phases = strings.Split(phases, ",")
	ctrl.SetLogger(logr.Discard()) // the product's processes write their own
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
