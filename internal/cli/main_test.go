package cli_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"dynamic-config.rs/fleet/internal/cli"
	"dynamic-config.rs/fleet/internal/testenv"
)

// The two clusters that all tests share; they keep apart by namespace and by name.
var workload, hub *testenv.Cluster

func TestMain(m *testing.M) {
	testscript.Main(withClusters{m}, map[string]func(){"dynconf": dynconf, "kubectl-dynconf": dynconf})
}

// dynconf is the program, in a process of its own.
func dynconf() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := cli.Run(ctx, os.Args[0], os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}

// withClusters runs the tests with two control planes.
type withClusters struct{ m *testing.M }

// Run is a testing.M's.
func (w withClusters) Run() int {
	// A TestMain is a main: there is no context above it.
	started, err := testenv.StartAll(context.Background(), testenv.Options{NoControllers: true}, testenv.Options{NoControllers: true})
	if err != nil {
		log.Fatalf("testenv: %v", err)
	}
	workload, hub = started[0], started[1]
	defer func() {
		for _, cluster := range started {
			if err := cluster.Stop(); err != nil {
				log.Printf("testenv: %v", err)
			}
		}
	}()
	return w.m.Run()
}
