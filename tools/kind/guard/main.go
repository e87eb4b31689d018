// Command guard changes the entry point of kind's node: it hides the cgroup
// controllers that the host has not mounted, shows the kubelet the values of sysctls
// that it would otherwise set for the whole machine, and lets no packet leave the
// container network.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
)

var (
	//go:embed hide.sh
	hide string
	//go:embed guard.sh
	guard string
)

// places say before which text of the entry point something goes.
var places = []struct{ before, what string }{
	{"fix_cgroup() {\n", hide},
	{"    # kubelet will try", "    hide_unmounted_controllers\n"},
	{"log_info 'starting init'", guard},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: guard ENTRYPOINT")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	changed := string(text)
	for _, p := range places {
		if n := strings.Count(changed, p.before); n != 1 {
			return fmt.Errorf("this is another entry point: %d times %q", n, p.before)
		}
		changed = strings.Replace(changed, p.before, p.what+p.before, 1)
	}
	return os.WriteFile(os.Args[1], []byte(changed), 0o755)
}
