package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// commandOfHub makes the command of a getter of what the hub says.
func (g *getter) commandOfHub(use string, aliases ...string) *cobra.Command {
	cmd := g.command(use, aliases...)
	g.hubNamespace = new(string)
	addHubNamespace(cmd, g.hubNamespace)
	return cmd
}

// noteSilence says so when what the hub said is old, for no replica of it lives any more.
// Who may not read the Leases is told nothing.
func (a *app) noteSilence(ctx context.Context, hubNamespace string) {
	hub, err := a.clusters.Hub()
	if err != nil {
		return
	}
	pulse, err := hub.HubPulse(ctx, hubNamespace, a.now())
	if err != nil {
		return
	}
	if silence := pulse.Silence(a.now()); silence != "" {
		a.say("Note: %s; what the hub says is that old.", silence)
	}
}
