package docs_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"dynamic-config.rs/fleet/internal/cli"
)

func TestCommands_OfDynconfParse(t *testing.T) {
	checked := 0
	for _, c := range commands(t) {
		words := c.words
		if len(words) > 1 && words[0] == "kubectl" && words[1] == "dynconf" {
			words = words[1:]
		}
		if filepath.Base(words[0]) != "dynconf" {
			continue
		}
		checked++
		cmd, args, err := dynconf().Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		// What a sentence mentions needs no arguments; what a block runs does.
		if err == nil && (c.inBlock || cmd.Flags().NArg() > 0) {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %s: %v", c.at, strings.Join(c.words, " "), err)
		}
	}
	if checked < 60 {
		t.Errorf("only %d commands", checked)
	}
}

// dynconf is the command line as it is built.
func dynconf() *cobra.Command {
	root := cli.New("dynconf", genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func TestCommands_OfMakeNameTargetsAndVariablesThatExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range commands(t) {
		if c.words[0] != "make" {
			continue
		}
		for _, word := range c.words[1:] {
			checked++
			want := "\n" + word + ":"
			if variable, _, sets := strings.Cut(word, "="); sets {
				want = "$(" + variable
			}
			if !strings.Contains(string(makefile), want) {
				t.Errorf("%s: %s: the Makefile has no %s", c.at, strings.Join(c.words, " "), word)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d targets", checked)
	}
}

func TestCommands_OfHelmSetValuesThatExist(t *testing.T) {
	checked := 0
	for _, c := range commands(t) {
		if c.words[0] != "helm" || !c.inBlock || !slices.Contains([]string{"install", "upgrade", "template"}, c.words[1]) {
			continue
		}
		checked++
		flags, positional := helmFlags(t, c.words[2:])
		if len(positional) != 2 || !strings.HasPrefix(positional[1], "deploy/charts/") {
			t.Errorf("%s: want a release and a chart, got %q", c.at, positional)
			continue
		}
		t.Run(c.at, func(t *testing.T) { template(t, filepath.Base(positional[1]), flags...) })
	}
	if checked < 8 {
		t.Errorf("only %d commands", checked)
	}
}

// helmFlags parts the flags that carry values from release and chart. What files hold
// does not matter here.
func helmFlags(t *testing.T, words []string) (values, positional []string) {
	t.Helper()
	flags := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	set := flags.StringArray("set", nil, "")
	files := flags.StringArray("set-file", nil, "")
	for _, name := range []string{"namespace", "kube-context"} {
		flags.StringP(name, name[:1], "", "")
	}
	for _, name := range []string{"create-namespace", "wait", "reuse-values"} {
		flags.Bool(name, false, "")
	}
	if err := flags.Parse(words); err != nil {
		t.Fatal(err)
	}
	for _, value := range *set {
		values = append(values, "--set", value)
	}
	for _, value := range *files {
		name, _, _ := strings.Cut(value, "=")
		values = append(values, "--set-file", name+"="+write(t, "file", "-----BEGIN CERTIFICATE-----\n"))
	}
	positional = slices.DeleteFunc(flags.Args(), func(word string) bool { return word == "…" })
	return values, positional
}

// ofOthers are flags of programs that are not ours and that pages speak of.
var ofOthers = []string{"service-account-issuer", "reuse-values"}

func TestCommands_FlagsOfHubAndAgentExist(t *testing.T) {
	hub, spoke := flagsOf(t, "hub"), flagsOf(t, "spoke")
	anywhere := slices.Concat(hub, spoke, ofOthers, dynconfFlags(dynconf()))
	checked := 0
	for _, c := range commands(t) {
		known := anywhere
		switch {
		case c.words[0] == "hub":
			known = hub
		case c.words[0] == "spoke":
			known = spoke
		case !strings.HasPrefix(c.words[0], "--"):
			continue
		}
		for _, word := range c.words {
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
			if !strings.HasPrefix(word, "--") {
				continue
			}
			checked++
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no flag --%s", c.at, name)
			}
		}
	}
	if checked < 25 {
		t.Errorf("only %d flags", checked)
	}
}

// flagsOf are the flags that a program says it has.
func flagsOf(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "grpcnotrace", "../cmd/"+program, "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  -([\w-]+)`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, found[1])
	}
	return names
}

// dynconfFlags are the flags of a command and of those below it.
func dynconfFlags(cmd *cobra.Command) []string {
	var names []string
	cmd.InitDefaultHelpFlag()
	add := func(flag *pflag.Flag) { names = append(names, flag.Name) }
	cmd.LocalFlags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		names = append(names, dynconfFlags(sub)...)
	}
	return names
}
