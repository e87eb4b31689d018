// Command demo shows the product at work on real control planes: one hub cluster,
// two spoke clusters, hub and agents as processes with their own rights. It narrates
// what it does, shows what kubectl shows, and ends by itself; its exit code says
// whether everything happened.
//
// With -keep it leaves everything running until it is interrupted, and another process
// with -cluster adds a cluster to it. It ends with the process that started it.
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

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// patience bounds every wait of the demo.
const patience = 2 * time.Minute

func main() {
	keep := flag.Bool("keep", false, "leave everything running until interrupted")
	cluster := flag.String("cluster", "", "run one more cluster of this name beside a demo that is left running")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := endWithParent(ctx)
	err := run(ctx, os.Stdout, *keep, *cluster)
	cancel()
	stop()
	switch {
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(os.Stderr, "\nInterrupted; everything is stopped.")
		os.Exit(interrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// interrupted is a shell's exit code for a program that a SIGINT ended.
const interrupted = 130

// errInterrupted: somebody ended the demo before its end.
var errInterrupted = errors.New("interrupted")

// run shows the story, or runs one more cluster where it is named. What refuses that
// comes before the folder is made.
func run(ctx context.Context, out io.Writer, keep bool, cluster string) error {
	// client-go and gRPC speak to people only when they have something to say.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	n, err := newNarrator(out)
	if err != nil {
		return err
	}
	if cluster != "" {
		beside, err := findDemo(ctx, cluster)
		if err != nil {
			return orInterrupted(ctx, err)
		}
		return inFolder(func(dir string) error {
			return orInterrupted(ctx, further(ctx, n, beside, dir, cluster))
		})
	}
	if keep {
		if err := checkAlone(ctx); err != nil {
			return err
		}
	}
	return inFolder(func(dir string) error { return demo(ctx, n, dir, keep) })
}

// demo brings everything up and tells the story.
func demo(ctx context.Context, n *narrator, dir string, keep bool) (err error) {
	n.say("Starting three real control planes (etcd, kube-apiserver, kube-controller-manager), a hub and two agents.")
	began := time.Now()
	options := stage.Options{Dir: dir, Spokes: []string{"east", "west"}}
	page := ""
	if keep {
		if page, err = pageAddress(ctx); err != nil {
			return err
		}
		options.HubArgs = []string{"--web-address=" + page}
	}
	s, err := stage.Start(ctx, options)
	if err != nil {
		return orInterrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	n.say("Up after %.0f s. The hub holds no kubeconfig of a spoke, and a spoke no credential of a store.", time.Since(began).Seconds())

	if err := play(ctx, n, s); err != nil {
		return orInterrupted(ctx, err)
	}
	if keep {
		return n.keep(ctx, s, page)
	}
	n.say("Done. Stopping everything.")
	return nil
}

// orInterrupted tells what an interrupt broke from what failed by itself.
func orInterrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
