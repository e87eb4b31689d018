// Command dynconf shows what a fleet's documents are doing and why, and steers it. As
// kubectl-dynconf on the PATH it is a plugin of kubectl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"dynamic-config.rs/fleet/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := cli.Run(ctx, os.Args[0], os.Args[1:], streams)
	stop()
	os.Exit(code)
}
