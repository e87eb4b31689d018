package doctor

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// outside is the finding of a program that runs although no Deployment runs it. That is
// as it should be where no replica is wanted.
func outside(what *program, seen string, wanted int32) []Finding {
	if wanted == 0 {
		return one(OK, what.conn.Side, what.name,
			fmt.Sprintf("runs outside a Deployment of namespace %s, where 0 replicas are wanted: %s", what.namespace, seen), "")
	}
	return one(Warn, what.conn.Side, what.name,
		fmt.Sprintf("runs outside its Deployment, of which 0 of %d replicas are ready in namespace %s: %s", wanted, what.namespace, seen),
		"if that is meant, scale the Deployment to 0")
}

// agentSession asks the hub for a session of the cluster that the agent's certificate
// names.
func agentSession(ctx context.Context, p *Patient) string {
	chain, err := p.Workload.AgentCertificate(ctx, p.AgentNamespace)
	if err != nil {
		return "" // what is the matter with it is another check's to say
	}
	name := kube.ClusterIn(chain[0])
	cluster, err := p.Hub.SpokeCluster(ctx, name)
	if err != nil || !apimeta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionConnected) {
		return ""
	}
	return "the hub has a session of spokecluster/" + name
}

// hubLeases counts the replicas whose Leases are not over.
func hubLeases(ctx context.Context, p *Patient) string {
	list := &coordinationv1.LeaseList{}
	if err := p.Hub.List(ctx, list, client.InNamespace(p.HubNamespace), client.HasLabels{kube.HubReplicaLabel}); err != nil {
		return "" // who may not look sees the Deployment alone
	}
	live := 0
	for i := range list.Items {
		spec := &list.Items[i].Spec
		if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
			continue
		}
		if p.Now().Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)) {
			live++
		}
	}
	if live == 0 {
		return ""
	}
	return fmt.Sprintf("live replicas by their Leases: %d", live)
}
