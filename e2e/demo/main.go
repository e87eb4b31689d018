// Command demo shows the product at work on real control planes: one hub cluster,
// two spoke clusters, hub and agents as processes with their own rights. It narrates
// what it does, shows what kubectl shows, and ends by itself; its exit code says
// whether everything happened.
//
// With -keep it leaves everything running until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testbin"
)

// patience bounds every wait of the demo.
const patience = 2 * time.Minute

func main() {
	keep := flag.Bool("keep", false, "leave everything running until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "dynamic-config-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
			return
		}
		fmt.Fprintf(os.Stderr, "\nthe logs are kept in %s\n", dir)
	}()
	kubectl, err := testbin.Path("kubectl")
	if err != nil {
		return err
	}
	n := &narrator{out: out, kubectl: kubectl}
	n.say("Starting three real control planes (etcd, kube-apiserver, kube-controller-manager), a hub and two agents.")
	began := time.Now()
	s, err := stage.Start(ctx, stage.Options{Dir: dir, Spokes: []string{"east", "west"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	n.say("Up after %.0f s. The hub holds no kubeconfig of a spoke, and a spoke no credential of a store.", time.Since(began).Seconds())

	if err := play(ctx, n, s); err != nil {
		return err
	}
	if keep {
		return n.keep(ctx, s)
	}
	n.say("Done. Stopping everything.")
	return nil
}
