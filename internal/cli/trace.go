package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/internal/reasons"
)

// trail is where the content of a target comes from.
type trail struct {
	// Target is kind/namespace/name.
	Target string `json:"target"`
	// DataKeys is how many keys the agent wrote.
	DataKeys string `json:"dataKeys,omitempty"`
	// ContentID is the hub's keyed hash of the content, from which nothing can be
	// guessed.
	ContentID string `json:"contentID,omitempty"`
	// Render is namespace/name, with the generation whose content the target holds.
	Render           string `json:"render"`
	RenderGeneration string `json:"renderGeneration,omitempty"`
	// RenderedAt is when the content changed last.
	RenderedAt *metav1.Time `json:"renderedAt,omitempty"`
	State      string       `json:"state"`
	// Key is the document's key in the store, with the section taken.
	Key     string `json:"key"`
	Section string `json:"section,omitempty"`
	// Class is what it is read with, and Store where.
	Class string `json:"class"`
	Store string `json:"store"`
	// Cluster is the workload cluster's name in the fleet.
	Cluster string `json:"cluster"`
}

// newTrace goes from a target back to its document.
func newTrace(a *app) *cobra.Command {
	var agentNamespace string
	cmd := &cobra.Command{
		Use:   "trace secret/NAME | configmap/NAME",
		Short: "Trace a ConfigMap or Secret back to Render, class, key and cluster",
		Args:  usage(cobra.ExactArgs(1)),

		ValidArgsFunction: a.completeTargets(),
	}
	out := newDataOutput(cmd)
	addAgentNamespace(cmd, &agentNamespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, name, err := targetArgument(args[0])
		if err != nil {
			return err
		}
		found, err := a.trace(cmd.Context(), kind, name, agentNamespace)
		if err != nil {
			return err
		}
		return out.print(a, found, func() error { return found.write(a) })
	}
	return cmd
}

// addAgentNamespace adds the flag for the agent's namespace.
func addAgentNamespace(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "agent-namespace", v1alpha1.DefaultSpokeNamespace, "Namespace of the agent in the workload cluster")
}

// targetArgument reads secret/NAME or configmap/NAME.
func targetArgument(text string) (kind, name string, err error) {
	kind, name, _ = strings.Cut(text, "/")
	switch strings.ToLower(kind) {
	case "secret", "secrets":
		kind = "Secret"
	case "configmap", "configmaps", "cm":
		kind = "ConfigMap"
	default:
		name = ""
	}
	if name == "" {
		return "", "", failf("for instance dynconf trace secret/pg-credentials", "%q is neither secret/NAME nor configmap/NAME", text)
	}
	return kind, name, nil
}

// trace follows a target back.
func (a *app) trace(ctx context.Context, kind, name, agentNamespace string) (*trail, error) {
	namespace, err := a.clusters.Namespace()
	if err != nil {
		return nil, err
	}
	workload, err := a.clusters.Workload()
	if err != nil {
		return nil, err
	}
	target, err := targetMetadata(ctx, workload, namespace, kind, name)
	if kube.Absent(err) {
		return nil, &hinted{err: err, hint: "dynconf get renders -n " + namespace + " lists the targets that Renders write"}
	}
	if err != nil {
		return nil, err
	}
	owner := target.Annotations[v1alpha1.AnnotationRender]
	if owner == "" || target.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByValue {
		return nil, failf("kubectl get "+strings.ToLower(kind)+" "+name+" -n "+namespace+` -o jsonpath='{range .metadata.managedFields[*]}{.manager}{"\n"}{end}' says who wrote it`,
			"%s %s/%s was not written by a Render", kind, namespace, name)
	}
	found := &trail{
		Target:           kind + "/" + namespace + "/" + name,
		DataKeys:         target.Annotations[v1alpha1.AnnotationDataKeys],
		ContentID:        target.Annotations[v1alpha1.AnnotationContentID],
		Render:           namespace + "/" + owner,
		RenderGeneration: target.Annotations[v1alpha1.AnnotationRenderGeneration],
		Cluster:          cmp.Or(clusterName(ctx, workload, agentNamespace), "unknown: the agent's certificate in "+agentNamespace+" cannot be read"),
	}
	render, err := workload.Render(ctx, namespace, owner)
	switch {
	case kube.Absent(err):
		found.State = "the Render is gone; it left the target"
		return found, nil
	case err != nil:
		return nil, err
	case target.Labels[v1alpha1.LabelRenderUID] != string(render.UID):
		found.State = "the Render was made anew; its predecessor wrote the target"
	}
	a.follow(ctx, found, render)
	return found, nil
}

// follow adds what Render and class say.
func (a *app) follow(ctx context.Context, found *trail, render *v1alpha1.DynamicConfigRender) {
	found.RenderedAt = render.Status.RenderedAt
	if cause := reasons.Cause(render.Status.Conditions); found.State == "" && cause != nil {
		found.State = fmt.Sprintf("%s is %s with %s", cause.Type, cause.Status, cause.Reason)
	}
	found.Key, found.Section = render.Spec.Key, render.Spec.Section
	namespace := ""
	if render.Spec.EffectiveClassKind() == v1alpha1.ClassKindNamespaced {
		namespace = render.Namespace
	}
	found.Class = v1alpha1.ClassID(render.Spec.EffectiveClassKind(), namespace, render.Spec.Class)
	class, note := a.classOf(ctx, render)
	if class == nil {
		found.Store = "unknown: the class " + note
		return
	}
	found.Store = strings.TrimSpace(string(class.Common.Source) + " " + class.Common.Endpoint)
}

// clusterName is the name in the agent's certificate; empty when it cannot be read.
func clusterName(ctx context.Context, workload *kube.Conn, namespace string) string {
	certificates, err := workload.AgentCertificate(ctx, namespace)
	if err != nil || len(certificates) == 0 {
		return ""
	}
	return kube.ClusterIn(certificates[0])
}

// write prints a trail for people.
func (t *trail) write(a *app) error {
	rendered := ""
	if t.RenderedAt != nil {
		rendered = ", content of " + explain.Age(*t.RenderedAt, a.now()) + " ago"
	}
	w := printers.GetNewTabWriter(a.Out)
	for _, line := range [][2]string{
		{"Target:", t.Target + " (" + cmp.Or(t.DataKeys, "?") + " data keys)"},
		{"Version:", "content ID " + cmp.Or(t.ContentID, none) + ", generation " + cmp.Or(t.RenderGeneration, none) + rendered},
		{"Render:", t.Render},
		{"State:", t.State},
		{"Key:", strings.TrimSuffix(t.Key+", section "+t.Section, ", section ")},
		{"Class:", t.Class},
		{"Store:", t.Store},
		{"Cluster:", t.Cluster},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], printers.EscapeTerminal(line[1]))
	}
	return w.Flush()
}
