package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// takes are the options that a command of a program takes: those with a value, those
// without, and how many arguments.
type takes struct {
	valued, bare []string
	args         int
}

// taken holds programs that are not on every machine to what their manuals say.
var taken = map[string]takes{
	"openssl rand":            {bare: []string{"hex"}, args: 1},
	"jq":                      {bare: []string{"r", "S"}, args: 1},
	"docker build":            {valued: []string{"f", "target", "t"}, args: 1},
	"skopeo copy":             {bare: []string{"all"}, valued: []string{"digestfile"}, args: 2},
	"cosign sign":             {args: 1},
	"cosign sign-blob":        {valued: []string{"bundle"}, args: 1},
	"cosign attest":           {valued: []string{"type", "predicate"}, args: 1},
	"cosign verify-blob":      {valued: []string{"bundle", "certificate-identity", "certificate-oidc-issuer"}, args: 1},
	"kind load image-archive": {args: 1},
	"vault kv get":            {},
}

// listed checks a command by the list above.
func listed(_ *stage, c *command) error {
	_, err := parsed(c)
	return err
}

// parsed parses a command by the list above.
func parsed(c *command) (*pflag.FlagSet, error) {
	line := strings.Join(c.words, " ")
	for name, options := range taken {
		if line != name && !strings.HasPrefix(line, name+" ") {
			continue
		}
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		for _, option := range options.valued {
			long, short := names(option)
			flags.StringP(long, short, "", "")
		}
		for _, option := range options.bare {
			long, short := names(option)
			flags.BoolP(long, short, false, "")
		}
		rest := c.words[len(strings.Fields(name)):]
		if name == "openssl rand" && len(rest) > 0 {
			rest[0] = strings.Replace(rest[0], "-", "--", 1) // its long options have one dash
		}
		if err := flags.Parse(rest); err != nil {
			return nil, err
		}
		if flags.NArg() != options.args {
			return nil, fmt.Errorf("%s: want %d arguments, got %q", name, options.args, flags.Args())
		}
		return flags, nil
	}
	return nil, fmt.Errorf("nothing checks %s", line)
}

// names are the two names of an option; one of one letter gets a long name that nobody uses.
func names(option string) (long, short string) {
	if len(option) == 1 {
		return option + option, option
	}
	return option, ""
}

// dockerCommand looks for the Dockerfile, its target and what is built.
func dockerCommand(_ *stage, c *command) error {
	flags, err := parsed(c)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, flags.Lookup("ff").Value.String()))
	if err != nil {
		return err
	}
	if target := flags.Lookup("target").Value.String(); !regexp.MustCompile(`(?m)^FROM .* AS ` + target + `$`).Match(text) {
		return fmt.Errorf("the Dockerfile has no target %s", target)
	}
	_, err = os.Stat(filepath.Join(root, flags.Arg(0)))
	return err
}

// jqCommand follows a path in what kubectl shows on the stage.
func jqCommand(s *stage, c *command) error {
	flags, err := parsed(c)
	if err != nil {
		return err
	}
	path := flags.Arg(0)
	if !regexp.MustCompile(`^(\.\w+)+$`).MatchString(path) {
		return fmt.Errorf("%s is no plain path", path)
	}
	if c.from == nil || c.from.words[0] != "kubectl" {
		return errors.New("nothing checks what is piped into jq")
	}
	text, err := s.run(root, s.kubectl, c.from.words[1:]...)
	if err != nil {
		return err
	}
	var value any
	if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&value); err != nil {
		return err
	}
	for name := range strings.SplitSeq(path[1:], ".") {
		object, _ := value.(map[string]any)
		if value = object[name]; value == nil {
			return fmt.Errorf("there is nothing at %s", path)
		}
	}
	return nil
}

// artifacts are the names that tools/release.sh gives, each with the line that gives it.
var artifacts = map[string]string{
	`image-(hub|spoke)_v[\d.]+\.tar`:                                         `"$out/image-${image}_$version.tar"`,
	`(crds|hub|spoke)-[\d.]+\.tgz`:                                           `"$out/$chart-$chart_version.tgz"`,
	`dynamic-config-fleet_v[\d.]+_linux-(amd64|arm64)\.(tar\.gz|sbom\.json)`: `"$out/dynamic-config-fleet_${version}_$platform.sbom.json"`,
	`SHA256SUMS`:                 `>SHA256SUMS`,
	`SHA256SUMS\.sigstore\.json`: `>SHA256SUMS`, // made by cosign beside it
}

// artifact says whether make images or make release-dry makes what a word names.
func artifact(word string) error {
	_, name, isArtifact := strings.Cut(word, "out/")
	image := regexp.MustCompile(`^images/(hub|spoke)(\.tar|/)?$`)
	if !isArtifact || image.MatchString(name) {
		return nil
	}
	release, err := os.ReadFile(filepath.Join(root, "tools", "release.sh"))
	if err != nil {
		return err
	}
	for form, line := range artifacts {
		if regexp.MustCompile("^release/"+form+"$").MatchString(name) && bytes.Contains(release, []byte(line)) {
			return nil
		}
	}
	if slices.Contains([]string{"bench.json", "images", "release"}, name) {
		return nil
	}
	return fmt.Errorf("neither make images nor tools/release.sh makes out/%s", name)
}
