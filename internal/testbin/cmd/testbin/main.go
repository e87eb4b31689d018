// Command testbin builds the real servers that the tests talk to, those of the
// names given or all of them, where they are missing. Run it from the root of
// the repository.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"dynamic-config.rs/fleet/internal/testbin"
)

func main() {
	modules := flag.String("modules", "tools/testbin", "folder that holds a module for each server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *modules, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, modules string, names []string) error {
	wanted, err := testbin.Servers(names...)
	if err != nil {
		return err
	}
	cache, err := testbin.CacheDir()
	if err != nil {
		return err
	}
	return testbin.Builder{Modules: modules, Cache: cache, Out: os.Stderr}.Build(ctx, wanted)
}
