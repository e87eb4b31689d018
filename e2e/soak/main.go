// Command soak changes a running fleet at random for a while and then compares every
// target and status with the truth. It fails when they differ, and prints its seed, with
// which the same moves are made again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/e2e/internal/chaos"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

func main() {
	var (
		length  = flag.Duration("for", time.Minute, "how long moves are made, a round each minute")
		hubs    = flag.Int("replicas", 2, "replicas of the hub")
		seed    = flag.Uint64("seed", rand.Uint64(), "which moves") //nolint:gosec // G404: any number does
		verbose = flag.Bool("v", false, "print every move")
	)
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // the product's processes write their own
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *length, *hubs, *seed, *verbose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// round is how long moves are made before the fleet is compared.
const round = time.Minute

func run(ctx context.Context, length time.Duration, replicas int, seed uint64, verbose bool) (err error) {
	dir, err := os.MkdirTemp("", "dynamic-config-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	consul, err := testenv.StartConsul(ctx, testenv.ConsulOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consul.Stop()) }()
	fleet, err := stage.Start(ctx, stage.Options{
		Dir: dir, Spokes: []string{"east", "west"}, HubArgs: []string{"--heartbeat=2s"},
		SpokeArgs: []string{"--reconnect-after-session=1s", "--reconnect-min=200ms", "--reconnect-max=2s"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	if err := fleet.Hub.Scale(ctx, replicas); err != nil {
		return err
	}
	for end := time.Now().Add(length); time.Now().Before(end); seed++ {
		fmt.Fprintf(os.Stdout, "round with seed %d\n", seed)
		report, err := chaos.Run(ctx, chaos.Config{
			Stage: fleet, Store: consul, Endpoint: consul.Addr, Seed: seed, For: min(round, time.Until(end)),
			Log: func(format string, args ...any) {
				if verbose {
					fmt.Fprintf(os.Stdout, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
				}
			},
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "moves %v; %d Renders and %d targets compared, right after %.1f s\n",
			report.Moves, report.Renders, report.Targets, report.Settled.Seconds())
		if len(report.Mismatches) > 0 {
			return fmt.Errorf("%d mismatches with seed %d: %q", len(report.Mismatches), seed, report.Mismatches)
		}
	}
	return nil
}
