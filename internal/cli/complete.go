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
	return a.completeNames(single, a.clusters.Workload, &v1alpha1.DynamicConfigRenderList{})
}

// completeClusters completes the names of live SpokeClusters.
func (a *app) completeClusters(single bool) completion {
	return a.completeNames(single, a.clusters.Hub, &v1alpha1.SpokeClusterList{})
}

// completeClasses completes the names of live classes of both kinds.
func (a *app) completeClasses() completion {
	return a.completeNames(false, a.clusters.Hub, &v1alpha1.DynamicConfigClassList{}, &v1alpha1.ClusterDynamicConfigClassList{})
}

// completeNames completes the names of live objects. A cluster that does not answer
// completes nothing.
func (a *app) completeNames(single bool, connect func() (*kube.Conn, error), lists ...client.ObjectList) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if single && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := a.liveNames(cmd, connect, lists...)
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.Contains(args, name) || !strings.HasPrefix(name, toComplete)
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// liveNames lists the names of objects in the namespace, and of those without one.
func (a *app) liveNames(cmd *cobra.Command, connect func() (*kube.Conn, error), lists ...client.ObjectList) []string {
	conn, err := connect()
	if err != nil {
		return nil
	}
	namespace, err := a.clusters.Namespace()
	if err != nil {
		return nil
	}
	var names []string
	for _, list := range lists {
		objects, err := conn.Objects(cmd.Context(), list, client.InNamespace(namespace))
		if err != nil {
			return names
		}
		for _, object := range objects {
			names = append(names, object.GetName())
		}
	}
	return names
}
