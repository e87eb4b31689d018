package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// completion is cobra's function that completes an argument.
type completion = cobra.CompletionFunc

// completeWith completes a flag with fixed words.
func completeWith(cmd *cobra.Command, flag string, words ...string) {
	// It fails for a flag that is not there: the flag was added a line above.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeGlobals completes contexts and namespaces.
func (a *app) completeGlobals(root *cobra.Command) {
	for _, flag := range []string{"context", "hub-context"} {
		_ = root.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return contexts(), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// contexts are those of the default kubeconfig.
func contexts() []string {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return nil
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// completeRenders completes the names of live Renders; only one argument when single.
func (a *app) completeRenders(single bool) completion {
	return a.completeObjects(single, a.clusters.Workload, client.Object.GetName, &v1alpha1.DynamicConfigRenderList{})
}

// completeTargets completes the targets that live Renders write, as trace takes them.
func (a *app) completeTargets() completion {
	return a.completeObjects(true, a.clusters.Workload, targetOfRender, &v1alpha1.DynamicConfigRenderList{})
}

// completeClusters completes the names of live SpokeClusters.
func (a *app) completeClusters(single bool) completion {
	return a.completeObjects(single, a.clusters.Hub, client.Object.GetName, &v1alpha1.SpokeClusterList{})
}

// completeClasses completes the names of live classes of both kinds.
func (a *app) completeClasses() completion {
	return a.completeObjects(false, a.clusters.Hub, client.Object.GetName, &v1alpha1.DynamicConfigClassList{}, &v1alpha1.ClusterDynamicConfigClassList{})
}

// completeWhy completes what why takes: a Render, or what follows class/ or cluster/.
func (a *app) completeWhy() completion {
	after := func(prefix string) func(client.Object) string {
		return func(o client.Object) string { return prefix + o.GetName() }
	}
	renders := a.completeRenders(true)
	classes := a.completeObjects(true, a.clusters.Hub, after("class/"), &v1alpha1.DynamicConfigClassList{}, &v1alpha1.ClusterDynamicConfigClassList{})
	clusters := a.completeObjects(true, a.clusters.Hub, after("cluster/"), &v1alpha1.SpokeClusterList{})
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch kind, _, _ := strings.Cut(toComplete, "/"); kind {
		case toComplete:
			return renders(cmd, args, toComplete)
		case "class":
			return classes(cmd, args, toComplete)
		case "cluster":
			return clusters(cmd, args, toComplete)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// targetOfRender is a Render's target as secret/NAME or configmap/NAME.
func targetOfRender(o client.Object) string {
	r, ok := o.(*v1alpha1.DynamicConfigRender)
	if !ok {
		return ""
	}
	return strings.ToLower(r.Spec.Target.Kind()) + "/" + r.Spec.Target.Name()
}

// completeObjects completes live objects by what name says of each. A cluster that does
// not answer completes nothing.
func (a *app) completeObjects(
	single bool, connect func() (*kube.Conn, error), name func(client.Object) string, lists ...client.ObjectList,
) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if single && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, object := range a.liveObjects(cmd, connect, lists) {
			if n := name(object); !slices.Contains(args, n) && strings.HasPrefix(n, toComplete) {
				names = append(names, n)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// liveObjects lists the objects in the namespace, and those without one.
func (a *app) liveObjects(cmd *cobra.Command, connect func() (*kube.Conn, error), lists []client.ObjectList) []client.Object {
	conn, err := connect()
	if err != nil {
		return nil
	}
	namespace, err := a.clusters.Namespace()
	if err != nil {
		return nil
	}
	var all []client.Object
	for _, list := range lists {
		objects, err := conn.Objects(cmd.Context(), list, client.InNamespace(namespace))
		if err != nil {
			return all
		}
		all = append(all, objects...)
	}
	return all
}
