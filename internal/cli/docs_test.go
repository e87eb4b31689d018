package cli_test

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"dynamic-config.rs/fleet/internal/cli"
)

// commandLine is a command in a page: in a block after a dollar, or between backticks.
var commandLine = regexp.MustCompile("(?m)^\\$ (dynconf .*)$|`(dynconf [^`]+)`")

func newRoot() *cobra.Command {
	root := cli.New("dynconf", genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// commandsIn are the command lines of a page.
func commandsIn(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, found := range commandLine.FindAllStringSubmatch(string(text), -1) {
		all = append(all, found[1]+found[2])
	}
	if len(all) < 3 {
		t.Fatalf("%s: only %d command lines", page, len(all))
	}
	return all
}

func TestDocs_EveryCommandLineParses(t *testing.T) {
	for _, page := range []string{"cli.md", "troubleshooting.md", "operations.md"} {
		for _, line := range commandsIn(t, page) {
			cmd, args, err := newRoot().Find(strings.Fields(line)[1:])
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			// What a sentence mentions needs no arguments; what a block runs does.
			if err == nil && cmd.Flags().NArg() > 0 {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			}
		}
	}
}

func TestDocs_EveryCommandIsOnItsPage(t *testing.T) {
	shown := map[*cobra.Command]bool{}
	root := newRoot()
	for _, line := range commandsIn(t, "cli.md") {
		cmd, _, err := root.Find(strings.Fields(line)[1:])
		if err != nil {
			t.Fatal(err)
		}
		shown[cmd] = true
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() && cmd.Name() != "help" && cmd.Parent().Name() != "completion" && !shown[cmd] {
			t.Errorf("docs/cli.md does not show %s", cmd.CommandPath())
		}
		if cmd.Short == "" {
			t.Errorf("%s does not say what it does", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(root)
}
