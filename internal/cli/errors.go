package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/clientcmd"

	"dynamic-config.rs/fleet/internal/cli/kube"
)

// Exit codes. A command with three of them says in its help what they mean there.
const (
	exitOK    = 0
	exitError = 1
	exitWorse = 2
	// exitInterrupted is what a shell reports of a program that SIGINT ended.
	exitInterrupted = 130
)

// threeCodes marks a command that ends with exitWorse after an error, since exitError is
// one of its results.
const threeCodes = "dynamic-config.rs/three-exit-codes"

// silentError ends a command with a code and says nothing more.
type silentError struct{ code int }

// Error is for nobody: Run looks at the type.
func (e *silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// hinted is an error with what to do about it.
type hinted struct {
	err  error
	hint string
}

// Error is the error; the hint is printed by Run.
func (e *hinted) Error() string { return e.err.Error() }

// Unwrap is the error.
func (e *hinted) Unwrap() error { return e.err }

// failf makes an error with a hint.
func failf(hint, format string, args ...any) error {
	return &hinted{err: fmt.Errorf(format, args...), hint: hint}
}

// assumedHub is the hint where nothing was found in a hub cluster that no flag names.
const assumedHub = "no flag names the hub cluster, so the workload cluster was asked: --hub-context or --hub-kubeconfig names the hub's"

// hintFor is what to do about an error: its own hint, or one by its type.
func hintFor(err error) string {
	if own, ok := errors.AsType[*hinted](err); ok && own.hint != "" {
		return own.hint
	}
	flag, assumed := flagOf(err)
	_, unreachable := errors.AsType[*url.Error](err)
	switch {
	case assumed && kube.Absent(err):
		return assumedHub
	case clientcmd.IsEmptyConfig(err), clientcmd.IsContextNotFound(err):
		return "name a cluster with --kubeconfig and --context"
	case apimeta.IsNoMatchError(err):
		return "is this the right cluster? " + flag + " names another; helm install crds deploy/charts/crds -n dynamic-config-system installs what is missing"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "dynconf doctor lists the rights that are missing"
	case apierrors.IsNotFound(err):
		return "dynconf get lists what is there; -n and " + flag + " say where to look"
	case unreachable, errors.Is(err, context.DeadlineExceeded):
		return "does the API server answer? " + flag + " names another"
	}
	return ""
}

// flagOf is the flag that names the cluster which an error comes from, and whether that is
// the hub's without having been named.
func flagOf(err error) (flag string, assumed bool) {
	side, ok := errors.AsType[*kube.SideError](err)
	if !ok || side.Side != kube.HubSide {
		return "--context", false
	}
	return "--hub-context", side.Assumed
}

// forEach does something for every name. One that fails keeps none of the others back;
// the error is every failure.
func forEach(names []string, do func(name string) error) error {
	var failures []error
	for _, name := range names {
		failures = append(failures, do(name))
	}
	return errors.Join(failures...)
}

// failuresOf are the errors that one of several things gave, in their order.
func failuresOf(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok { // what forEach joined
		return several.Unwrap()
	}
	return []error{err}
}

// lineOf is an error as one line, with what to do about it.
func lineOf(err error) string {
	line := printers.EscapeTerminal(strings.ReplaceAll(err.Error(), "\n", " "))
	if hint := hintFor(err); hint != "" {
		line += " (hint: " + hint + ")"
	}
	return line
}

// codeFor is the exit code of a command that ended with an error.
func codeFor(cmd *cobra.Command, err error) int {
	if silent, ok := errors.AsType[*silentError](err); ok {
		return silent.code
	}
	if _, ok := cmd.Annotations[threeCodes]; ok {
		return exitWorse
	}
	return exitError
}
