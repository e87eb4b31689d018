package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/internal/reasons"
)

// maxNamed is how many objects of one kind of trouble are named.
const maxNamed = 5

// renders looks at the Renders and groups those with a problem by whose it is.
func renders(ctx context.Context, p *Patient) []Finding {
	const check = "renders"
	list := &v1alpha1.DynamicConfigRenderList{}
	if err := p.Workload.List(ctx, list, client.InNamespace(p.Namespace)); err != nil {
		if kube.Absent(err) {
			return nil // said by the check of the definitions
		}
		return unseen(kube.WorkloadSide, check, err)
	}
	groups := map[trouble][]string{}
	for i := range list.Items {
		r := &list.Items[i]
		if t, ok := troubleOf(r.Status.Conditions); ok {
			groups[t] = append(groups[t], r.Namespace+"/"+r.Name)
		}
	}
	return report(kube.WorkloadSide, check, groups, len(list.Items))
}

// classes looks at the classes of both kinds.
func classes(ctx context.Context, p *Patient) []Finding {
	const check = "classes"
	groups := map[trouble][]string{}
	total := 0
	for _, list := range []client.ObjectList{&v1alpha1.ClusterDynamicConfigClassList{}, &v1alpha1.DynamicConfigClassList{}} {
		objects, err := p.Hub.Objects(ctx, list)
		if err != nil {
			if kube.Absent(err) {
				continue
			}
			return unseen(kube.HubSide, check, err)
		}
		total += len(objects)
		for _, object := range objects {
			class := kube.ClassOf(object)
			if t, ok := troubleOf(class.Status.Conditions); ok {
				t.level = Fail // every Render of the class fails with it
				groups[t] = append(groups[t], class.ID())
			}
		}
	}
	return report(kube.HubSide, check, groups, total)
}

// spokeClusters looks at the clusters.
func spokeClusters(ctx context.Context, p *Patient) []Finding {
	const check = "clusters"
	list := &v1alpha1.SpokeClusterList{}
	if err := p.Hub.List(ctx, list); err != nil {
		if kube.Absent(err) {
			return nil
		}
		return unseen(kube.HubSide, check, err)
	}
	groups := map[trouble][]string{}
	for i := range list.Items {
		if t, ok := troubleOf(list.Items[i].Status.Conditions); ok {
			groups[t] = append(groups[t], list.Items[i].Name)
		}
	}
	return report(kube.HubSide, check, groups, len(list.Items))
}

// trouble is what several objects have in common.
type trouble struct {
	level         Level
	reason, owner string
}

// failures are the reasons by which the installation itself does not work; what other
// reasons say of a Render or a cluster is a warning.
var failures = []string{
	v1alpha1.ReasonHubLost, v1alpha1.ReasonDisconnected, v1alpha1.ReasonAgentsAlternate,
	v1alpha1.ReasonApplyForbidden, v1alpha1.ReasonInternalError,
}

// troubleOf says what is wrong by the conditions of an object, if anything is.
func troubleOf(conditions []metav1.Condition) (trouble, bool) {
	t := trouble{level: Warn, reason: v1alpha1.ReasonPending, owner: reasons.Owner(conditions)}
	cause := reasons.Cause(conditions)
	if cause != nil {
		t.reason = cause.Reason
	}
	if slices.Contains(failures, t.reason) {
		t.level = Fail
	}
	return t, cause == nil || !reasons.Fine(cause)
}

// report is a finding for each trouble, or that there is none.
func report(side, check string, groups map[trouble][]string, total int) []Finding {
	if len(groups) == 0 {
		return one(OK, side, check, fmt.Sprintf("%d, none with a problem", total), "")
	}
	byReason := slices.SortedFunc(maps.Keys(groups), func(a, b trouble) int { return strings.Compare(a.reason, b.reason) })
	var findings []Finding
	for _, t := range byReason {
		names := groups[t]
		slices.Sort(names)
		shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			shown += fmt.Sprintf(" and %d more", more)
		}
		message := fmt.Sprintf("%d of %d have %s, for %s: %s", len(names), total, t.reason, t.owner, shown)
		findings = append(findings, Finding{t.level, side, check, message, "dynconf why " + t.reason})
	}
	return findings
}
