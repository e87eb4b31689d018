package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/version"
)

// build is which dynconf this is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	API     string `json:"api"`
}

// newVersion prints the version of this program.
func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of dynconf; dynconf get clusters shows those of the agents",
		Args:  usage(cobra.NoArgs),
	}
	out := newDataOutput(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		return out.print(a, thisBuild(), func() error {
			_, err := fmt.Fprintln(a.Out, version.String())
			return err
		})
	}
	return cmd
}

func thisBuild() build {
	return build{Version: version.Version, Commit: version.Commit, Date: version.Date, API: v1alpha1.GroupVersion.String()}
}
