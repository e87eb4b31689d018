package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/internal/cli/kube"
)

// agentWord tells what an agent without a session said of it last, in an event: the hub
// knows nothing of one that never reached it. Who may not read events is told nothing.
func agentWord(ctx context.Context, p *Patient) []Finding {
	if agentSession(ctx, p) != "" {
		return nil
	}
	list := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.kind": "Secret", "involvedObject.name": kube.AgentIdentitySecret}
	if err := p.Workload.List(ctx, list, client.InNamespace(p.AgentNamespace), about); err != nil || len(list.Items) == 0 {
		return nil
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return saidAt(&a).Compare(saidAt(&b)) })
	if last.Type != corev1.EventTypeWarning {
		return nil
	}
	return one(Warn, kube.WorkloadSide, "agent's word",
		fmt.Sprintf("%s, %s ago: %s", last.Reason, duration.HumanDuration(p.Now().Sub(saidAt(&last))), last.Message), "dynconf why "+last.Reason)
}

// saidAt is when an event was last seen.
func saidAt(e *corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
