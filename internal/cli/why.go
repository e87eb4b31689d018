package cli

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/reasons"
)

// newWhy says in one paragraph why an object is as it is.
func newWhy(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "why NAME | class/NAME | cluster/NAME | REASON",
		Short: "Say what is the matter: what fails, since when, whose it is, what to do",
		Long: "Says in one paragraph what is the matter with a Render, a class or a cluster: what fails, since when,\n" +
			"whose problem it is and what to do. A reason, as conditions carry them, is explained without a cluster.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeRenders(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.why(cmd.Context(), args[0])
			if err == nil {
				_, err = fmt.Fprintln(a.Out, text)
			}
			return err
		},
	}
}

// why explains an object or a reason.
func (a *app) why(ctx context.Context, what string) (string, error) {
	// No object's name has a capital, every reason has.
	if strings.ContainsFunc(what, unicode.IsUpper) && !strings.Contains(what, "/") {
		reason, ok := reasons.Lookup(what)
		if !ok {
			return "", failf("docs/reasons.md lists them", "no reason is called %q", what)
		}
		return reason.Name + ": " + reason.Text, nil
	}
	title, conditions, err := a.conditions(ctx, what)
	if err != nil {
		return "", err
	}
	return explain.Paragraph(title, conditions, a.now()), nil
}

// conditions reads those of a Render, a class or a cluster.
func (a *app) conditions(ctx context.Context, what string) (title string, conditions []metav1.Condition, err error) {
	kind, name, ok := strings.Cut(what, "/")
	if !ok {
		kind, name = "render", what
	}
	switch strings.ToLower(kind) {
	case "render", "renders", "dcr", "dynamicconfigrender":
		_, render, err := a.render(ctx, name)
		if err != nil {
			return "", nil, err
		}
		return "Render " + render.Namespace + "/" + render.Name, render.Status.Conditions, nil
	case "class", "classes", "dcc", "cdcc", "dynamicconfigclass", "clusterdynamicconfigclass":
		namespace, err := a.clusters.Namespace()
		if err != nil {
			return "", nil, err
		}
		hub, err := a.clusters.Hub()
		if err != nil {
			return "", nil, err
		}
		class, err := hub.AnyClass(ctx, namespace, name)
		if err != nil {
			return "", nil, err
		}
		return class.ID(), class.Status.Conditions, nil
	case "cluster", "clusters", "spc", "spokecluster":
		hub, err := a.clusters.Hub()
		if err != nil {
			return "", nil, err
		}
		cluster, err := hub.SpokeCluster(ctx, name)
		if err != nil {
			return "", nil, err
		}
		return "SpokeCluster " + name, cluster.Status.Conditions, nil
	}
	return "", nil, failf("NAME, class/NAME, cluster/NAME or a reason", "%q is no kind that has conditions", kind)
}
