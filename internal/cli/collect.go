package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/bundle"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// readme goes into every bundle.
const readme = `A support bundle of Dynamic Config Fleet, made by dynconf collect.

versions.yaml   dynconf and the two API servers
doctor.yaml     what dynconf doctor says
renders.yaml    Renders with their status, and their targets without data
events.yaml     events of these objects
classes.yaml    classes of the hub
clusters.yaml   SpokeClusters of the hub
problems.yaml   what could not be read

It holds no data of any Secret and no value of any ConfigMap (of those, the names
and lengths of keys), no hash of a value, and no credential: user info of
endpoints, role IDs and hashes of join tokens are left out, and so are labels and
annotations that are not the product's. Look through it before you hand it on: it
holds names of namespaces, clusters, stores and keys, and messages of conditions.
`

// newCollect makes a support bundle.
func newCollect(a *app) *cobra.Command {
	var flags doctorFlags
	var file string
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Make a support bundle without any value or credential",
		Long: "Collects objects with their status, events, versions and the findings of doctor into a tar.gz file and\n" +
			"prints its name. No data of a Secret is read for it, and no value of a ConfigMap goes in.",
		Args: usage(cobra.NoArgs),
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&file, "output-file", "f", "", "File to write; - for the standard output; dynconf-TIME.tar.gz when empty")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name := "dynconf-" + a.now().UTC().Format("20060102-150405")
		if file == stdin {
			return a.collect(cmd.Context(), &flags, a.Out, name)
		}
		if file == "" {
			file = name + ".tar.gz"
		}
		out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return failf("-f names another file", "%w", err)
		}
		if err := errors.Join(a.collect(cmd.Context(), &flags, out, name), out.Close()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Out, file)
		return err
	}
	return cmd
}

// collector gathers what goes into a bundle. What cannot be read is a problem, and no
// error: the rest is worth having.
type collector struct {
	*app
	namespace     string // empty for all
	workload, hub *kube.Conn
	problems      []string
}

// collect writes a bundle.
func (a *app) collect(ctx context.Context, flags *doctorFlags, w io.Writer, name string) error {
	findings, err := a.examine(ctx, flags)
	if err != nil {
		return err
	}
	c, err := a.newCollector(flags)
	if err != nil {
		return err
	}
	archive := bundle.NewArchive(w, name, a.now())
	if err := archive.Text("README.txt", []byte(readme)); err != nil {
		return err
	}
	for _, part := range []struct {
		file string
		data any
	}{
		{"versions.yaml", c.versions()},
		{"doctor.yaml", findings},
		{"renders.yaml", c.renders(ctx)},
		{"events.yaml", c.events(ctx)},
		{"classes.yaml", c.classes(ctx)},
		{"clusters.yaml", c.spokeClusters(ctx)},
	} {
		if err := archive.YAML(part.file, part.data); err != nil {
			return err
		}
	}
	for _, problem := range c.problems {
		a.say("not in the bundle: %s", problem)
	}
	if err := archive.YAML("problems.yaml", c.problems); err != nil {
		return err
	}
	return archive.Close()
}

// newCollector connects to both clusters.
func (a *app) newCollector(flags *doctorFlags) (*collector, error) {
	c := &collector{app: a}
	var err error
	if !flags.allNamespaces {
		if c.namespace, err = a.clusters.Namespace(); err != nil {
			return nil, err
		}
	}
	if c.workload, err = a.clusters.Workload(); err != nil {
		return nil, err
	}
	c.hub, err = a.clusters.Hub()
	return c, err
}

// miss notes what could not be read.
func (c *collector) miss(what string, err error) {
	if !kube.Absent(err) {
		c.problems = append(c.problems, what+": "+err.Error())
	}
}

func (c *collector) versions() map[string]any {
	versions := map[string]any{"dynconf": thisBuild()}
	for _, conn := range []*kube.Conn{c.workload, c.hub} {
		api, err := discovery.NewDiscoveryClientForConfig(conn.Config)
		if err == nil {
			if server, said := api.ServerVersion(); said == nil {
				versions[conn.Side] = server.GitVersion
				continue
			} else {
				err = said
			}
		}
		c.miss("version of the "+conn.Side, err)
	}
	return versions
}

func (c *collector) renders(ctx context.Context) []*bundle.Render {
	list := &v1alpha1.DynamicConfigRenderList{}
	if err := c.workload.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		c.miss("Renders", err)
		return nil
	}
	all := make([]*bundle.Render, 0, len(list.Items))
	for i := range list.Items {
		kept := bundle.RenderOf(&list.Items[i])
		kept.Target = c.target(ctx, &list.Items[i])
		all = append(all, kept)
	}
	return all
}

// target reads a target: a Secret as metadata alone.
func (c *collector) target(ctx context.Context, r *v1alpha1.DynamicConfigRender) *bundle.Target {
	var err error
	if r.Spec.Target.IsSecret() {
		var secret *metav1.PartialObjectMetadata
		if secret, err = targetMetadata(ctx, c.workload, r.Namespace, "Secret", r.Spec.Target.Name()); err == nil {
			return bundle.TargetOf("Secret", secret)
		}
	} else {
		cm := &corev1.ConfigMap{}
		if err = c.workload.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.Target.Name()}, cm); err == nil {
			if cm.Labels[v1alpha1.LabelRenderUID] != string(r.UID) {
				return bundle.TargetOf("ConfigMap", cm) // somebody else's
			}
			return bundle.ConfigMapOf(cm)
		}
	}
	return &bundle.Target{Meta: bundle.Meta{Kind: r.Spec.Target.Kind(), Name: r.Spec.Target.Name()}, Problem: err.Error()}
}

func (c *collector) events(ctx context.Context) []*bundle.Event {
	list := &corev1.EventList{}
	if err := c.workload.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		c.miss("events", err)
		return nil
	}
	var all []*bundle.Event
	for i := range list.Items {
		if kept := bundle.EventOf(&list.Items[i]); kept != nil {
			all = append(all, kept)
		}
	}
	return all
}

func (c *collector) classes(ctx context.Context) []*bundle.Class {
	var all []*bundle.Class
	for _, list := range []client.ObjectList{&v1alpha1.ClusterDynamicConfigClassList{}, &v1alpha1.DynamicConfigClassList{}} {
		objects, err := c.hub.Objects(ctx, list)
		if err != nil {
			c.miss("classes", err)
			continue
		}
		for _, object := range objects {
			all = append(all, bundle.ClassOf(object))
		}
	}
	return all
}

func (c *collector) spokeClusters(ctx context.Context) []*bundle.SpokeCluster {
	list := &v1alpha1.SpokeClusterList{}
	if err := c.hub.List(ctx, list); err != nil {
		c.miss("SpokeClusters", err)
		return nil
	}
	all := make([]*bundle.SpokeCluster, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, bundle.SpokeClusterOf(&list.Items[i]))
	}
	return all
}
