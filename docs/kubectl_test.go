package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"dynamic-config.rs/fleet/deploy/crds"
)

// notOurs are the kinds of Kubernetes, and of others, that pages name to kubectl.
var notOurs = []string{"configmap", "crd", "externalsecret", "leases", "secret"}

// takesKind are the commands of kubectl whose first argument is a kind.
var takesKind = []string{"annotate", "delete", "describe", "edit", "get", "label", "patch", "wait"}

func TestCommands_OfKubectlNameKindsThatExist(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(notOurs)
	for _, crd := range all {
		names := crd.Spec.Names
		known = append(append(known, names.Plural, names.Singular), names.ShortNames...)
	}
	checked := 0
	for _, c := range commands(t) {
		if c.words[0] != "kubectl" {
			continue
		}
		args := kubectlArgs(t, &c)
		if len(args) < 2 || !slices.Contains(takesKind, args[0]) {
			continue
		}
		checked++
		kind, _, _ := strings.Cut(args[1], "/")
		if !slices.Contains(known, kind) {
			t.Errorf("%s: %s: no kind is called %s", c.at, strings.Join(c.words, " "), kind)
		}
	}
	if checked < 20 {
		t.Errorf("only %d kinds", checked)
	}
}

// kubectlArgs are the arguments of a command of kubectl that are no flags.
func kubectlArgs(t *testing.T, c *command) []string {
	t.Helper()
	flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	for name, short := range map[string]string{
		"context": "", "namespace": "n", "output": "o", "filename": "f", "kustomize": "k",
		"patch": "p", "type": "", "for": "", "raw": "", "subresource": "", "dry-run": "", "validate": "",
		"audience": "", "clusterrole": "", "serviceaccount": "",
	} {
		flags.StringArrayP(name, short, nil, "")
	}
	for name, short := range map[string]string{
		"all-namespaces": "A", "overwrite": "", "server-side": "", "force-conflicts": "", "show-managed-fields": "",
	} {
		flags.BoolP(name, short, false, "")
	}
	if err := flags.Parse(c.words[1:]); err != nil {
		t.Errorf("%s: %s: %v", c.at, strings.Join(c.words, " "), err)
	}
	return flags.Args()
}
