package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli"
	"dynamic-config.rs/fleet/internal/cli/enrol"
)

// dynconf is the command line as it is built.
func dynconf(out *bytes.Buffer) *cobra.Command {
	root := cli.New("dynconf", genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// dynconfCommand parses a command, and compares what a page shows of its output with what
// it says on the stage.
func dynconfCommand(s *stage, c *command) error {
	words := c.words[1:]
	if c.words[0] == "kubectl" {
		words = words[1:]
	}
	if words[0] == "__complete" {
		return nil
	}
	cmd, args, err := dynconf(&bytes.Buffer{}).Find(words)
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	// What a sentence mentions needs no arguments; what a block runs does.
	if err == nil && (c.inBlock || cmd.Flags().NArg() > 0) {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		return err
	}
	return s.shows(words, c.output)
}

// steady are the commands whose output holds no time and no identity: all of it is compared.
var steady = regexp.MustCompile(`^(render|suspend|resume|cluster (suspend|resume|list)|why [A-Z]\w+$)`)

// shows compares a page's output with that of the command. Where times are in it, the
// frame is compared.
func (s *stage) shows(words []string, want string) error {
	whole := steady.MatchString(strings.Join(words, " "))
	if want == "" || !whole && frame(want) == nil {
		return nil
	}
	s.compared++
	args := slices.Clone(words)
	for n, word := range args {
		if filepath.Ext(word) == ".json" {
			args[n] = filepath.Join(s.files, word)
		}
	}
	var out bytes.Buffer
	root := dynconf(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(s.t.Context())
	if !whole {
		err = nil // doctor and diff end with an error where they find something
		if diff := cmp.Diff(frame(want), frame(out.String())); diff != "" {
			err = fmt.Errorf("shows another frame (-page +dynconf): %s", diff)
		}
		return err
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		return fmt.Errorf("shows something else (-page +dynconf): %s", diff)
	}
	return err
}

var (
	// heading is the first line of a table, gap what parts its columns.
	heading = regexp.MustCompile(`^[A-Z]+( {2,}[A-Z]+)+ *$`)
	gap     = regexp.MustCompile(` {2,}`)
	// label begins a line of a list.
	label = regexp.MustCompile(`(?m)^[A-Z]\w+: {2,}`)
)

// frame is what stands around the values: the headings of a table, or the labels of a
// list; nil for neither.
func frame(text string) []string {
	first, _, _ := strings.Cut(text, "\n")
	if heading.MatchString(first) {
		return gap.Split(strings.TrimSpace(first), -1)
	}
	return label.FindAllString(text, -1)
}

func TestDynconf_WhatAPageShowsOfItIsCompared(t *testing.T) {
	s := newStage(t)
	for line, wrong := range map[string]string{
		"get renders -n shop":     "NAME   CLASS   GOAL\n",
		"trace secret/pg -n shop": "Target:   x\nSource:   y\n",
		"why StoreSealed":         "StoreSealed: all is well.\n",
	} {
		if err := s.shows(strings.Fields(line), wrong); err == nil {
			t.Errorf("%s may show %q", line, wrong)
		}
	}
}

// What enrolling a cluster prints is what the page shows, and is a command like any other.
func TestDynconf_WhatEnrollingPrintsIsOnThePageAndValid(t *testing.T) {
	s := newStage(t)
	install := enrol.Install{
		Cluster: "prod-eu", HubAddress: "hub.example:8443", CAFile: "dynamic-config-hub-ca.crt",
		Namespace: v1alpha1.DefaultSpokeNamespace, Context: "prod-eu",
	}
	text, err := os.ReadFile("cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if script := install.Script(); !strings.Contains(string(text), "\n"+script+"```") {
		t.Errorf("the page does not show\n%s", script)
	}
	install.JoinToken = "dcj_x"
	all, err := calls(install.Script())
	if err != nil || len(all) != 3 {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	for _, c := range all {
		c.inBlock, c.at, c.page = true, "dynconf cluster enroll", &page{}
		if err := s.validate(c); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// spokeCommand has the agent parse a command and show its help instead of running it.
func spokeCommand(s *stage, c *command) error {
	args := slices.DeleteFunc(slices.Clone(c.words[1:]), func(word string) bool { return word == "…" })
	_, err := s.run(root, "go", append([]string{"run", "-tags", "grpcnotrace", "./cmd/spoke"}, append(args, "-h")...)...)
	return err
}

// flagsOfOthers are flags of programs that are not ours and that sentences name alone.
var flagsOfOthers = []string{"--service-account-issuer", "--reuse-values", "--dns"}

func TestCommands_FlagsInSentencesExist(t *testing.T) {
	known := slices.Concat(flagsOfOthers, flagsOf(t, "hub"), flagsOf(t, "spoke"), dynconfFlags(dynconf(&bytes.Buffer{})))
	checked := 0
	for _, c := range commands(t) {
		if c.inBlock || !strings.HasPrefix(c.words[0], "-") {
			continue
		}
		name, _, _ := strings.Cut(c.words[0], "=")
		checked++
		if !slices.Contains(known, name) && definesFlags("e2e/bench", c.words[:1]) != nil {
			t.Errorf("%s: there is no flag %s", c.at, name)
		}
	}
	if checked < 25 {
		t.Errorf("only %d flags", checked)
	}
}

// flagsOf are the flags that a program says it has.
func flagsOf(t *testing.T, program string) []string {
	t.Helper()
	s := &stage{t: t}
	cmd := []string{"run", "-tags", "grpcnotrace", "./cmd/" + program, "-h"}
	out, err := s.help("go", cmd...)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  -([\w-]+)`).FindAllStringSubmatch(out, -1) {
		names = append(names, "--"+found[1])
	}
	return names
}

// dynconfFlags are the flags of a command and of those below it.
func dynconfFlags(cmd *cobra.Command) []string {
	var names []string
	cmd.InitDefaultHelpFlag()
	add := func(flag *pflag.Flag) { names = append(names, "--"+flag.Name, "-"+flag.Shorthand) }
	cmd.LocalFlags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		names = append(names, dynconfFlags(sub)...)
	}
	return names
}

// makeCommand looks for targets and variables in the Makefile.
func makeCommand(_ *stage, c *command) error {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, word := range c.words[1:] {
		name, value, sets := strings.Cut(word, "=")
		switch {
		case !sets && !strings.Contains(string(makefile), "\n"+word+":"):
			return fmt.Errorf("the Makefile has no target %s", word)
		case sets && !strings.Contains(string(makefile), "\n"+name+" "):
			return fmt.Errorf("the Makefile has no variable %s", name)
		case name == "BENCH":
			if err := definesFlags("e2e/bench", strings.Fields(value)); err != nil {
				return err
			}
		}
	}
	return nil
}
