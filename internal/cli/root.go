package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/internal/cli/kube"
)

// app is what every command has at hand.
type app struct {
	genericiooptions.IOStreams
	clusters *kube.Clusters
	now      func() time.Time
}

// Run runs the command line until ctx ends and returns its exit code. program is what
// the user called: as kubectl-dynconf it is a plugin of kubectl.
func Run(ctx context.Context, program string, args []string, streams genericiooptions.IOStreams) int {
	// Libraries log for operators; a person gets an error or nothing.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	root := New(program, streams) //nolint:contextcheck // cobra hands the context to the commands
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exitInterrupted
	}
	if _, silent := errors.AsType[*silentError](err); !silent {
		for _, failure := range failuresOf(err) {
			fmt.Fprintln(streams.ErrOut, "error: "+lineOf(failure))
		}
	}
	return codeFor(cmd, err)
}

// New returns the root command.
func New(program string, streams genericiooptions.IOStreams) *cobra.Command {
	a := &app{IOStreams: streams, clusters: kube.NewClusters(), now: time.Now}
	root := &cobra.Command{
		Use:   "dynconf",
		Short: "See and steer Dynamic Config Fleet",
		Long: "dynconf shows what a fleet's documents are doing and why, and steers it.\n\n" +
			"Renders and their targets are read in the workload cluster (--context), classes and SpokeClusters\n" +
			"in the hub cluster (--hub-context; the same cluster where no flag says otherwise).",
		Args:          usage(cobra.NoArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl dynconf"}
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return failf(cmd.CommandPath()+" --help", "%w", err)
	})
	a.clusters.AddFlags(root.PersistentFlags())
	a.completeGlobals(root)
	root.AddCommand(
		newGet(a), newStatus(a), newWhy(a), newTrace(a), newRender(a), newDiff(a), newSync(a),
		newSuspend(a), newResume(a), newCluster(a), newDoctor(a), newCollect(a), newVersion(a),
	)
	return root
}

// say writes words for the person at the keyboard. Names in them may come from a cluster
// of another team.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.ErrOut, printers.EscapeTerminal(fmt.Sprintf(format, args...)))
}

// usage refuses arguments that cobra's own checks let through.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return failf(cmd.CommandPath()+" --help", "%w", err)
		}
		return nil
	}
}
