package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/reasons"
)

// newWhy says in one paragraph why an object is as it is.
func newWhy(a *app) *cobra.Command {
	var hubNamespace, agentNamespace string
	cmd := &cobra.Command{
		Use:   "why NAME | class/NAME | cluster/NAME | REASON",
		Short: "Say what is the matter: what fails, since when, whose it is, what to do",
		Long: "Says in one paragraph what is the matter with a Render, a class or a cluster: what fails, since when,\n" +
			"whose problem it is and what to do. Of a Render it adds what is the matter with its cluster, where the\n" +
			"hub may be asked. A reason, as conditions and the logs of hub and agent carry them, is explained\n" +
			"without a cluster.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeWhy(),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.why(cmd.Context(), args[0], hubNamespace, agentNamespace)
			if err == nil {
				_, err = fmt.Fprintln(a.Out, text)
			}
			return err
		},
	}
	addHubNamespace(cmd, &hubNamespace)
	addAgentNamespace(cmd, &agentNamespace)
	return cmd
}

// why explains an object or a reason.
func (a *app) why(ctx context.Context, what, hubNamespace, agentNamespace string) (string, error) {
	// No object's name has a capital, every reason has.
	if strings.ContainsFunc(what, unicode.IsUpper) && !strings.Contains(what, "/") {
		reason, ok := reasons.Lookup(what)
		if !ok {
			return "", failf(didYouMean(what), "no reason is called %q", what)
		}
		return reason.Name + ": " + reason.Text, nil
	}
	object, err := a.object(ctx, what)
	if err != nil {
		return "", err
	}
	text := explain.Paragraph(object, a.now())
	if object.Kind == explain.Render {
		cluster := a.clusterOf(ctx, agentNamespace)
		if cluster == nil {
			return text, nil
		}
		if !apimeta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady) {
			text += " Its cluster, " + explain.Paragraph(clusterObject(cluster), a.now())
		}
	}
	a.noteSilence(ctx, hubNamespace)
	return text, nil
}

// didYouMean is the hint for a reason that is not known, by what it resembles: cobra's
// suggestions for a command are as good for a reason.
func didYouMean(word string) string {
	similarTo := &cobra.Command{}
	for _, name := range reasons.Names() {
		similarTo.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	similarTo.SuggestionsMinimumDistance = 3
	similar := similarTo.SuggestionsFor(word)
	if len(similar) == 0 {
		return "docs/reasons.md lists them"
	}
	slices.Sort(similar)
	return "did you mean " + strings.Join(similar, ", ") + "?"
}

// object reads a Render, a class or a cluster.
func (a *app) object(ctx context.Context, what string) (*explain.Object, error) {
	kind, name, ok := strings.Cut(what, "/")
	if !ok {
		kind, name = "render", what
	}
	switch strings.ToLower(kind) {
	case "render", "renders", "dcr", "dynamicconfigrender":
		_, render, err := a.render(ctx, name)
		if err != nil {
			return nil, err
		}
		title := "Render " + render.Namespace + "/" + render.Name
		return &explain.Object{Kind: explain.Render, Title: title, Conditions: render.Status.Conditions}, nil
	case "class", "classes", "dcc", "cdcc", "dynamicconfigclass", "clusterdynamicconfigclass":
		return a.classObject(ctx, name)
	case "cluster", "clusters", "spc", "spokecluster":
		hub, err := a.clusters.Hub()
		if err != nil {
			return nil, err
		}
		cluster, err := hub.SpokeCluster(ctx, name)
		if err != nil {
			return nil, err
		}
		return clusterObject(cluster), nil
	}
	return nil, failf("NAME, class/NAME, cluster/NAME or a reason", "%q is no kind that has conditions", kind)
}

// clusterObject is a SpokeCluster to explain.
func clusterObject(c *v1alpha1.SpokeCluster) *explain.Object {
	return &explain.Object{
		Kind: explain.Cluster, Title: "SpokeCluster " + c.Name, Conditions: c.Status.Conditions, New: c.Status.Session == nil,
	}
}

// classObject reads a class of either kind.
func (a *app) classObject(ctx context.Context, name string) (*explain.Object, error) {
	namespace, err := a.clusters.Namespace()
	if err != nil {
		return nil, err
	}
	hub, err := a.clusters.Hub()
	if err != nil {
		return nil, err
	}
	class, err := hub.AnyClass(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &explain.Object{Kind: explain.Class, Title: class.ID(), Conditions: class.Status.Conditions}, nil
}
