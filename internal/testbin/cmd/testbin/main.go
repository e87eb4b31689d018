// Command testbin builds the real servers that the tests talk to, those of the
// names given or all of them, where they are missing. Run it from the root of
// the repository. With -path it says where a binary is.
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
	where := flag.String("path", "", "build nothing, and print where the binary of this name is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := printPath(*where)
	if *where == "" {
		err = run(ctx, *modules, flag.Args())
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbin:", err)
		os.Exit(1)
	}
}

// printPath says where a binary is; nothing for the empty name.
func printPath(binary string) error {
	if binary == "" {
		return nil
	}
	path, err := testbin.Path(binary)
	if err == nil {
		_, err = fmt.Fprintln(os.Stdout, path)
	}
	return err
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
