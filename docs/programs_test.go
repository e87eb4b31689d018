package docs_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// help runs a program for what it says of itself, on either of its outputs.
func (s *stage) help(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), name, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// gnu has a program of GNU parse its options and show its help instead of running.
func gnu(s *stage, c *command) error {
	_, err := s.help(c.words[0], append(c.words[1:], "--help")...)
	return err
}

// builtin runs what the shell does itself.
func builtin(s *stage, c *command) error {
	_, err := s.help("bash", append([]string{"-c", `"$@"`, "bash"}, c.words...)...)
	return err
}

// sourced is a file, or what a command prints, which is checked by itself.
func sourced(_ *stage, c *command) error {
	if len(c.words) == 2 && c.words[1] == substituted {
		return nil
	}
	_, err := os.Stat(filepath.Join(root, c.words[1]))
	return err
}

// replaced is the command that exec runs.
func replaced(s *stage, c *command) error {
	inner := *c
	inner.words = c.words[1:]
	return s.validate(&inner)
}

// scriptCommand is a script that bash runs.
func scriptCommand(s *stage, c *command) error { return script(s, c.words[1]) }

// script has bash parse a script of the repository.
func script(s *stage, name string) error {
	_, err := s.help("bash", "-n", name)
	return err
}

// gitCommand has git parse a command: it shows its usage when it meets -h, and complains
// of what came before.
func gitCommand(s *stage, c *command) error {
	out, _ := s.help("git", append(c.words[1:], "-h")...) // usage is an error to git
	if strings.HasPrefix(out, "usage: git "+c.words[1]) {
		return nil
	}
	return errors.New(out)
}

// goCommand runs what is cheap, and looks for packages, tests and flags of the rest.
func goCommand(s *stage, c *command) error {
	args := c.words[2:]
	if len(args) == 0 {
		return fmt.Errorf("nothing checks %s", strings.Join(c.words, " "))
	}
	switch c.words[1] {
	case "list":
		_, err := s.help("go", c.words[1:]...)
		return err
	case "run":
		if _, err := os.Stat(filepath.Join(root, args[0])); err != nil {
			return err
		}
		return definesFlags(args[0], args[1:])
	case "test":
		return testCommand(args)
	case "tool":
		if args[0] == "pprof" {
			return s.profiled(args[1:])
		}
	}
	return fmt.Errorf("nothing checks %s", strings.Join(c.words, " "))
}

// testCommand says whether go test would find what it is told to run. Every flag that
// pages give it has a value.
func testCommand(args []string) error {
	at := slices.IndexFunc(args, func(word string) bool { return strings.HasPrefix(word, "./") })
	if at < 0 {
		return errors.New("names no package")
	}
	dir := args[at]
	text, err := sources(dir, "*_test.go")
	if err != nil {
		return err
	}
	args = slices.Delete(slices.Clone(args), at, at+1)
	if len(args)%2 != 0 {
		return fmt.Errorf("a flag has no value: %q", args)
	}
	for pair := range slices.Chunk(args, 2) {
		name, value := strings.TrimPrefix(pair[0], "-"), pair[1]
		if flag.Lookup("test."+name) == nil {
			if err := definesFlags(dir, pair[:1]); err != nil {
				return err
			}
		}
		prefix, selects := map[string]string{"run": "Test", "bench": "Benchmark", "fuzz": "Fuzz"}[name]
		if selects && value != "^$" && !matches(text, prefix, value) {
			return fmt.Errorf("%s %s matches no function of %s", pair[0], value, dir)
		}
	}
	return nil
}

// matches says whether a pattern names one of the test functions of a text.
func matches(text, prefix, pattern string) bool {
	pattern, _, _ = strings.Cut(pattern, "/")
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return false
	}
	for _, found := range regexp.MustCompile(`(?m)^func (`+prefix+`\w*)\(`).FindAllStringSubmatch(text, -1) {
		if wanted.MatchString(found[1]) {
			return true
		}
	}
	return false
}

// definesFlags says whether a package defines the flags among some words.
func definesFlags(dir string, words []string) error {
	text, err := sources(dir, "*.go")
	if err != nil {
		return err
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(name, "-") && !regexp.MustCompile(`flag\.\w+\([^"\n]*"`+strings.TrimLeft(name, "-")+`"`).MatchString(text) {
			return fmt.Errorf("%s has no flag %s", dir, name)
		}
	}
	return nil
}

// sources are the files of a package.
func sources(dir, pattern string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, pattern))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("%s has no %s: %w", dir, pattern, errors.Join(err, os.ErrNotExist))
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}
