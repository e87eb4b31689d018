package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
)

var (
	// helm and buf are the binaries that tools/go.mod pins; they are built when they are
	// not cached.
	helm = sync.OnceValues(func() (string, error) { return tool("helm") })
	buf  = sync.OnceValues(func() (string, error) { return tool("buf") })
)

func tool(name string) (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=tools/go.mod", "-n", name)
	cmd.Dir = root
	path, err := cmd.Output()
	return strings.TrimSpace(string(path)), err
}

// template renders a chart with helm, which checks the values against the schema: it
// knows every value, so a name that is wrong is refused.
func template(t *testing.T, chart string, flags ...string) error {
	t.Helper()
	program, err := helm()
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Join(root, "deploy", "charts", chart))
	if err != nil {
		return err
	}
	args := append([]string{"template", "x", folder, "--namespace", "dynamic-config-system"}, flags...)
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// withNeeded puts values in front that a chart cannot do without and that an example may
// leave out.
func withNeeded(t *testing.T, chart string, flags []string) []string {
	t.Helper()
	if chart != "spoke" {
		return flags
	}
	needed := "cluster: x\nhub: {address: 'hub:8443'}\n"
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "hub.ca.") }) {
		needed = "cluster: x\nhub: {address: 'hub:8443', ca: {configMap: {name: hub-ca}}}\n"
	}
	return append([]string{"--values", write(t, "needed.yaml", needed)}, flags...)
}

// releases are what the pages install, each of the chart of its name.
var releases = []string{"crds", "hub", "spoke"}

// helmCommand has helm parse a command, and renders what it would install. A sentence may
// name a command without its arguments.
func helmCommand(s *stage, c *command) error {
	if err := s.usage(s.helm, c.words[1:]); err != nil || !c.inBlock {
		return err
	}
	h, err := helmArgs(s.t, c.words[2:])
	if err != nil {
		return err
	}
	switch verb := c.words[1]; verb {
	case "install", "upgrade", "template":
		return h.installed(s, verb)
	case "uninstall":
		if len(h.positional) != 1 || !slices.Contains(releases, h.positional[0]) {
			return fmt.Errorf("no release is called %q", h.positional)
		}
		return h.inNamespace()
	case "push":
		if len(h.positional) != 2 || !strings.HasPrefix(h.positional[0], "out/release/") || !strings.HasPrefix(h.positional[1], "oci://") {
			return fmt.Errorf("want an archive of a chart and a registry, got %q", h.positional)
		}
		return nil
	}
	return fmt.Errorf("nothing checks helm %s", c.words[1])
}

// helmLine is what a command of helm says.
type helmLine struct {
	// values are the flags that carry values.
	values, positional []string
	namespace          string
	// partial says that the page leaves something out, or that the release knows it.
	partial, reuses bool
}

// helmArgs parts a command. What files hold does not matter here.
func helmArgs(t *testing.T, words []string) (*helmLine, error) {
	t.Helper()
	flags := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	set := flags.StringArray("set", nil, "")
	files := flags.StringArray("set-file", nil, "")
	h := &helmLine{}
	flags.StringVarP(&h.namespace, "namespace", "n", "", "")
	flags.String("kube-context", "", "")
	flags.BoolVar(&h.reuses, "reuse-values", false, "")
	for _, name := range []string{"create-namespace", "wait"} {
		flags.Bool(name, false, "")
	}
	if err := flags.Parse(words); err != nil {
		return nil, err
	}
	for _, value := range *set {
		h.values = append(h.values, "--set", value)
	}
	for _, value := range *files {
		name, _, _ := strings.Cut(value, "=")
		h.values = append(h.values, "--set-file", name+"="+write(t, "file", "-----BEGIN CERTIFICATE-----\n"))
	}
	h.positional = slices.DeleteFunc(flags.Args(), func(word string) bool { return word == "…" })
	h.partial = len(h.positional) < flags.NArg()
	return h, nil
}

// installed renders what a command installs.
func (h *helmLine) installed(s *stage, verb string) error {
	if len(h.positional) != 2 {
		return fmt.Errorf("want a release and a chart, got %q", h.positional)
	}
	release, chart := h.positional[0], filepath.Base(h.positional[1])
	if _, err := os.Stat(filepath.Join(root, h.positional[1], "Chart.yaml")); err != nil {
		return fmt.Errorf("there is no chart %s: %w", h.positional[1], err)
	}
	if release != chart {
		return fmt.Errorf("the release %s is of the chart %s", release, chart)
	}
	values := h.values
	switch {
	case h.partial || h.reuses:
		values = withNeeded(s.t, chart, values)
	case verb == "upgrade" && chart != "crds":
		return errors.New("an upgrade without --reuse-values forgets what was set")
	}
	if err := template(s.t, chart, values...); err != nil || h.partial {
		return err
	}
	return h.inNamespace()
}

func (h *helmLine) inNamespace() error {
	if h.namespace != "dynamic-config-system" {
		return fmt.Errorf("releases are in the namespace dynamic-config-system, and not in %q", h.namespace)
	}
	return nil
}

// What a chart says after it is installed holds commands like any other.
func TestHelm_CommandsInTheNotesOfChartsAreValid(t *testing.T) {
	s := newStage(t)
	for chart, least := range map[string]int{"hub": 2, "spoke": 2} {
		args := []string{"install", chart, filepath.Join("deploy", "charts", chart), "--namespace", "dynamic-config-system", "--dry-run=client", "--set", "web.enabled=true"}
		if chart == "spoke" {
			args = append(args[:len(args)-1], "cluster=prod-eu,hub.address=hub:8443,hub.ca.configMap.name=dynamic-config-hub-ca")
		}
		text, err := s.run(root, s.helm, args...)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(text, "\nNOTES:\n")
		found := 0
		for _, line := range regexp.MustCompile(`(?m)^  ((?:kubectl|helm|dynconf) .*)$`).FindAllStringSubmatch(notes, -1) {
			all, err := calls(line[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				found++
				c.inBlock, c.at, c.page = true, "the notes of "+chart, &page{}
				if err := s.validate(c); err != nil {
					t.Errorf("%s: %v", c, err)
				}
			}
		}
		if found < least {
			t.Errorf("%s: found %d commands in:\n%s", chart, found, notes)
		}
	}
}

// bufCommand has buf parse a command.
func bufCommand(s *stage, c *command) error {
	_, err := s.run(root, s.buf, append(c.words[1:], "--help")...)
	return err
}
