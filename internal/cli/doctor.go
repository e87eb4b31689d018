package cli

import (
	"context"

	"github.com/spf13/cobra"

	"dynamic-config.rs/fleet/internal/cli/doctor"
)

// newDoctor checks the installation.
func newDoctor(a *app) *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check hub, agent, certificates, stores, rights and what is not ready",
		Long: "Checks the installation with your rights and changes nothing.\n\n" +
			"Exit code: 0 when all is well, 1 when there are warnings, 2 when something does not work.",
		Annotations: map[string]string{threeCodes: ""},
		Args:        usage(cobra.NoArgs),
	}
	out := newDataOutput(cmd)
	flags.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		findings, err := a.examine(cmd.Context(), &flags)
		if err != nil {
			return err
		}
		if err := out.print(a, findings, func() error { return a.printTable(doctor.Table(findings)) }); err != nil {
			return err
		}
		switch doctor.Worst(findings) {
		case doctor.Fail:
			return &silentError{exitWorse}
		case doctor.Warn:
			return &silentError{exitError}
		default:
			return nil
		}
	}
	return cmd
}

// doctorFlags say where to look.
type doctorFlags struct {
	allNamespaces                bool
	hubNamespace, agentNamespace string
}

func (f *doctorFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "Look at the Renders of all namespaces")
	addHubNamespace(cmd, &f.hubNamespace)
	addAgentNamespace(cmd, &f.agentNamespace)
}

// examine makes every check.
func (a *app) examine(ctx context.Context, flags *doctorFlags) ([]doctor.Finding, error) {
	p := &doctor.Patient{
		HubStated: a.clusters.HubStated(), Now: a.now,
		HubNamespace: flags.hubNamespace, AgentNamespace: flags.agentNamespace,
	}
	var err error
	if !flags.allNamespaces {
		if p.Namespace, err = a.clusters.Namespace(); err != nil {
			return nil, err
		}
	}
	if p.Workload, err = a.clusters.Workload(); err != nil {
		return nil, err
	}
	if p.Hub, err = a.clusters.Hub(); err != nil {
		return nil, err
	}
	return doctor.Examine(ctx, p), nil
}
