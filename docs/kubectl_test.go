package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// kindsOfOthers are kinds of others that a page may name; the stage has none of them.
var kindsOfOthers = []string{"externalsecret"}

// kubectlValued are the flags before whose value a space may stand on a page.
var kubectlValued = []string{"-n", "-o", "-f", "-k", "-p", "-l", "--context", "--kubeconfig", "--raw"}

// kubectlCommand runs a command on the stage. What would change something is run dry, by
// the server, so that one command does not depend on another.
func kubectlCommand(s *stage, c *command) error {
	if len(c.words) > 1 && c.words[1] == "dynconf" {
		return dynconfCommand(s, c)
	}
	args := slices.Clone(c.words[1:])
	positional, flags := kubectlArgs(args)
	if err := s.usage(s.kubectl, args); err != nil {
		return err
	}
	for _, namespace := range flags["-n"] {
		if _, err := s.run(root, s.kubectl, "get", "namespace", namespace); err != nil {
			return fmt.Errorf("no namespace %s: %w", namespace, err)
		}
	}
	if len(positional) == 0 {
		return errors.New("names no command")
	}
	verb := positional[0]
	switch whole := c.inBlock || len(positional) > 1; {
	case slices.ContainsFunc(positional, func(word string) bool { return slices.Contains(kindsOfOthers, word) }):
		return isJSON(flags["-p"])
	case verb == "port-forward":
		return s.forwarded(c, positional)
	case verb == "logs" || verb == "rollout": // there is no pod
		return s.exists(flags, positional[len(positional)-1])
	case verb == "apply":
		return s.applied(c, args, flags)
	case verb == "edit" || !whole: // named in a sentence, and not complete
		return nil
	case verb == "config":
		return s.configured(args, flags)
	}
	return s.tried(verb, args, positional, flags)
}

// kubectlArgs parts a command's flags from the rest.
func kubectlArgs(args []string) (positional []string, flags map[string][]string) {
	flags = map[string][]string{}
	for n := 0; n < len(args); n++ {
		name, value, hasValue := strings.Cut(args[n], "=")
		switch {
		case !strings.HasPrefix(name, "-"):
			positional = append(positional, args[n])
			continue
		case !hasValue && slices.Contains(kubectlValued, name) && n+1 < len(args):
			n++
			value = args[n]
		}
		flags[name] = append(flags[name], value)
	}
	return positional, flags
}

// usage has a program parse a command and show its help instead of running it.
func (s *stage) usage(program string, args []string) error {
	help, err := s.run(root, program, append(slices.DeleteFunc(slices.Clone(args), func(word string) bool { return word == "…" }), "--help")...)
	if err != nil {
		return err
	}
	_, usage, _ := strings.Cut(help, "Usage:\n")
	usage, _, _ = strings.Cut(strings.TrimSpace(usage), "\n")
	// A group of commands shows its own help for a command that it does not have.
	if strings.Contains(usage, "SUBCOMMAND") || strings.HasSuffix(usage, "[command]") || usage == "" {
		return fmt.Errorf("no such subcommand: %s", usage)
	}
	return nil
}

// tried runs a command, dry if it would change something.
func (s *stage) tried(verb string, args, positional []string, flags map[string][]string) error {
	token := verb == "create" && positional[1] == "token"
	changes := []string{"annotate", "create", "delete", "label", "patch", "scale"}
	switch {
	case verb == "wait":
		args = append(args, "--timeout=0") // looks once
	case slices.Contains(changes, verb) && !token:
		args = append(args, "--dry-run=server")
	}
	for _, role := range flags["--clusterrole"] {
		if err := s.exists(nil, "clusterrole/"+role); err != nil {
			return err
		}
	}
	if given := flags["--kubeconfig"]; given != nil {
		args[slices.Index(args, given[0])] = s.kubeconfig
	}
	out, err := s.run(root, s.kubectl, args...)
	switch path := strings.Join(flags["-o"], ""); {
	case err != nil && verb == "create" && strings.Contains(err.Error(), "already exists"):
		return nil
	case err == nil && strings.HasPrefix(path, "jsonpath") && out == "":
		return fmt.Errorf("%s shows nothing", path)
	}
	return err
}

// exists says whether there is an object, named as KIND/NAME.
func (s *stage) exists(flags map[string][]string, object string) error {
	args := []string{"get", object}
	for _, namespace := range flags["-n"] {
		args = append(args, "-n", namespace)
	}
	_, err := s.run(root, s.kubectl, args...)
	return err
}

// applied applies what is in the repository. What stands in the block is tested with the
// other examples; what a page wrote before is only looked for.
func (s *stage) applied(c *command, args []string, flags map[string][]string) error {
	files := slices.Concat(flags["-f"], flags["-k"])
	if len(files) == 0 && c.inBlock {
		return errors.New("nothing to apply")
	}
	for _, file := range files {
		switch _, err := os.Stat(filepath.Join(root, file)); {
		case file == "-" && c.hasInput:
			return nil
		case err != nil && c.page.writes(file):
			return nil
		case err != nil:
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	_, err := s.run(root, s.kubectl, append(args, "--dry-run=server")...)
	return err
}

// writes says whether a command of the page writes a file.
func (p *page) writes(file string) bool {
	for _, b := range p.blocks {
		for _, typed := range b.typed() {
			all, err := calls(typed.text)
			if err == nil && slices.ContainsFunc(all, func(c *command) bool { return c.writes == file }) {
				return true
			}
		}
	}
	return false
}

// configured runs kubectl config on a copy of the stage's file.
func (s *stage) configured(args []string, flags map[string][]string) error {
	config, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		return err
	}
	file := filepath.Join(s.t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return err
	}
	if given := flags["--kubeconfig"]; given != nil {
		args[slices.Index(args, given[0])] = file
	}
	_, err = s.run(root, s.kubectl, append(args, "--kubeconfig="+file)...)
	return err
}

func isJSON(texts []string) error {
	for _, text := range texts {
		if !json.Valid([]byte(text)) {
			return fmt.Errorf("no JSON: %s", text)
		}
	}
	return nil
}
