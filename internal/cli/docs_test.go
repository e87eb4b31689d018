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

// commandLine is a command in a block of a page, after a dollar.
var commandLine = regexp.MustCompile(`(?m)^\$ (dynconf .*)$`)

func newRoot() *cobra.Command {
	root := cli.New("dynconf", genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// That every command line of every page parses is tested in docs.
func TestDocs_EveryCommandIsOnItsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[*cobra.Command]bool{}
	root := newRoot()
	for _, line := range commandLine.FindAllStringSubmatch(string(text), -1) {
		cmd, _, err := root.Find(strings.Fields(line[1])[1:])
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
