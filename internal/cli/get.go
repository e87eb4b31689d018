package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// newGet lists objects of the fleet.
func newGet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "List Renders, classes or clusters",
		Args:  usage(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGetRenders(a), newGetClasses(a), newGetClusters(a, "clusters"))
	return cmd
}

// newGetRenders lists Renders of one workload cluster or of several.
func newGetRenders(a *app) *cobra.Command {
	var contexts []string
	g := &getter{
		app: a, what: "dynamicconfigrenders", table: renderTable, namespaced: true,
		lists: []client.ObjectList{&v1alpha1.DynamicConfigRenderList{}},
	}
	g.connect = func() ([]*kube.Conn, error) {
		if len(contexts) == 0 {
			return each(a.clusters.Workload())
		}
		var all []*kube.Conn
		for _, name := range contexts {
			conn, err := a.clusters.WorkloadAt(name)
			if err != nil {
				return nil, err
			}
			all = append(all, conn)
		}
		g.places = contexts
		return all, nil
	}
	cmd := g.command("renders", "render", "dynamicconfigrender", "dynamicconfigrenders", "dcr")
	cmd.Short = "List Renders of a workload cluster, or of several"
	cmd.Flags().StringSliceVar(&contexts, "contexts", nil, "Kubeconfig contexts of several workload clusters, shown in one table")
	cmd.ValidArgsFunction = a.completeRenders(false)
	return cmd
}

// newGetClasses lists classes of both kinds.
func newGetClasses(a *app) *cobra.Command {
	g := &getter{
		app: a, what: "dynamicconfigclasses", table: classTable, namespaced: true,
		connect: func() ([]*kube.Conn, error) { return each(a.clusters.Hub()) },
		lists:   []client.ObjectList{&v1alpha1.ClusterDynamicConfigClassList{}, &v1alpha1.DynamicConfigClassList{}},
	}
	cmd := g.commandOfHub("classes", "class", "dcc", "cdcc")
	cmd.Short = "List the classes of the hub, of both kinds"
	cmd.ValidArgsFunction = a.completeClasses()
	return cmd
}

// newGetClusters lists SpokeClusters.
func newGetClusters(a *app, use string) *cobra.Command {
	g := &getter{
		app: a, what: "spokeclusters", table: clusterTable,
		connect: func() ([]*kube.Conn, error) { return each(a.clusters.Hub()) },
		lists:   []client.ObjectList{&v1alpha1.SpokeClusterList{}},
	}
	cmd := g.commandOfHub(use, "cluster", "spokecluster", "spokeclusters", "spc")
	cmd.Short = "List the clusters of the fleet"
	cmd.ValidArgsFunction = a.completeClusters(false)
	return cmd
}

// each is one connection as several.
func each(conn *kube.Conn, err error) ([]*kube.Conn, error) { return []*kube.Conn{conn}, err }

// getter lists objects of some kinds.
type getter struct {
	app        *app
	what       string // plural, for words
	table      func(objects []client.Object, now time.Time) *metav1.Table
	namespaced bool
	connect    func() ([]*kube.Conn, error)
	lists      []client.ObjectList
	places     []string // names of the connections where there are several
	assumed    bool     // a hub was asked that no flag names
	// hubNamespace is where the hub is whose word the objects are; nil for others.
	hubNamespace *string

	out           *objectOutput
	allNamespaces bool
	selector      string
	watch         bool
}

// command makes the command of a getter.
func (g *getter) command(use string, aliases ...string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use + " [NAME...]",
		Aliases: aliases,
		RunE:    func(cmd *cobra.Command, names []string) error { return g.run(cmd.Context(), names) },
	}
	g.out = newObjectOutput(cmd)
	cmd.Flags().StringVarP(&g.selector, "selector", "l", "", "Selector (label query) to filter on, supports '=', '==', '!=', 'in', 'notin'")
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "After listing, watch for changes")
	if g.namespaced {
		cmd.Flags().BoolVarP(&g.allNamespaces, "all-namespaces", "A", false, "List across all namespaces")
	}
	return cmd
}

func (g *getter) run(ctx context.Context, names []string) error {
	sources, err := g.sources(names)
	if err != nil {
		return err
	}
	show, err := g.printer(len(names) == 1 && !g.watch)
	if err != nil {
		return err
	}
	all, err := list(ctx, sources, names)
	if err != nil {
		return err
	}
	if err := show(all); err != nil {
		return err
	}
	if g.hubNamespace != nil {
		g.app.noteSilence(ctx, *g.hubNamespace)
	}
	if g.watch {
		return g.follow(ctx, sources, names, show)
	}
	return g.checkFound(all, names)
}

// checkFound says that there is nothing, and refuses names that are not there.
func (g *getter) checkFound(all []found, names []string) error {
	seen := map[string]bool{}
	for _, f := range all {
		for _, object := range f.objects {
			seen[object.GetName()] = true
		}
	}
	hint, where := "dynconf get lists what is there; -n and --context say where to look", ""
	if g.assumed {
		hint, where = assumedHub, " (hint: "+assumedHub+")"
	}
	if len(seen) == 0 && len(names) == 0 {
		g.app.say("No %s found.%s", g.what, where)
	}
	return forEach(names, func(name string) error {
		if seen[name] {
			return nil
		}
		return failf(hint, "%s %q not found", g.what, name)
	})
}

// printer returns what prints objects as the flags ask. single says that one object is
// meant and no list.
func (g *getter) printer(single bool) (func([]found) error, error) {
	if table, _ := g.out.asTable(); table {
		printer := g.out.tablePrinter(g.namespaced && g.allNamespaces)
		w := printers.GetNewTabWriter(g.app.Out) // keeps the widths for the rows of a watch
		return func(all []found) error { return errors.Join(printer.PrintObj(g.rows(all), w), w.Flush()) }, nil
	}
	if len(g.places) > 0 {
		return nil, failf("leave -o or --contexts out", "--contexts shows a table only: objects do not say where they are from")
	}
	printer, err := g.out.flags.ToPrinter()
	if err != nil {
		return nil, failf("json, yaml, name and wide are there", "%w", err)
	}
	return func(all []found) error { return g.printObjects(printer, all, single) }, nil
}

// rows is everything found as one table, with a column for the place where there are
// several.
func (g *getter) rows(all []found) *metav1.Table {
	table := g.table(nil, g.app.now())
	if len(g.places) > 0 {
		table.ColumnDefinitions = slices.Insert(table.ColumnDefinitions, 0, metav1.TableColumnDefinition{Name: "Context", Type: "string"})
	}
	for _, f := range all {
		for _, row := range g.table(f.objects, g.app.now()).Rows {
			if len(g.places) > 0 {
				row.Cells = slices.Insert(row.Cells, 0, any(f.place))
			}
			table.Rows = append(table.Rows, row)
		}
	}
	return table
}

// printObjects prints everything found as one object, or as a list.
func (g *getter) printObjects(printer printers.ResourcePrinter, all []found, single bool) error {
	var objects []client.Object
	for _, f := range all {
		objects = append(objects, f.objects...)
	}
	if single && len(objects) == 0 {
		return nil
	}
	list, err := listOf(objects)
	if err != nil {
		return err
	}
	if single || *g.out.flags.OutputFormat == "name" { // the printer of names takes no lists
		for _, object := range objects {
			if err := printer.PrintObj(object, g.app.Out); err != nil {
				return err
			}
		}
		return nil
	}
	return printer.PrintObj(list, g.app.Out)
}
