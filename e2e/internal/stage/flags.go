package stage

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// knownTo keeps the flags that a binary knows: one of another version may not know
// what this version's stage passes.
func knownTo(ctx context.Context, binary string, args []string) ([]string, error) {
	help, err := exec.CommandContext(ctx, binary, "--help").CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // an ExitError: help has a status of its own
		return nil, fmt.Errorf("ask %s for its flags: %w", binary, err)
	}
	var known []string
	for line := range strings.Lines(string(help)) {
		if name, isFlag := strings.CutPrefix(line, "  -"); isFlag {
			known = append(known, strings.Fields(name)[0])
		}
	}
	return slices.DeleteFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return !slices.Contains(known, name)
	}), nil
}
