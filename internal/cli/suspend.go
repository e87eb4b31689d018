package cli

import (
	"github.com/spf13/cobra"
)

// newSuspend stops Renders.
func newSuspend(a *app) *cobra.Command {
	cmd := a.suspension("suspend", "suspended", true)
	cmd.Short = "Stop fetching and writing for Renders; targets keep what they have"
	return cmd
}

// newResume ends what newSuspend began.
func newResume(a *app) *cobra.Command {
	cmd := a.suspension("resume", "resumed", false)
	cmd.Short = "Let suspended Renders go on"
	return cmd
}

// suspension makes the command that sets spec.suspend of Renders.
func (a *app) suspension(use, done string, suspend bool) *cobra.Command {
	return &cobra.Command{
		Use:               use + " NAME...",
		Args:              usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeRenders(false),
		RunE: func(cmd *cobra.Command, names []string) error {
			return forEach(names, func(name string) error {
				workload, r, err := a.render(cmd.Context(), name)
				if err != nil {
					return err
				}
				if err := patch(cmd.Context(), workload, r, suspendPatch(suspend)); err != nil {
					return err
				}
				a.say("%s %s", nameOf(r), done)
				return nil
			})
		},
	}
}

// suspendPatch sets spec.suspend.
func suspendPatch(suspend bool) any {
	return map[string]any{"spec": map[string]any{"suspend": suspend}}
}
