package doctor

import (
	"cmp"
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

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
	if err != nil || p.silence(ctx) != "" || !apimeta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionConnected) {
		return ""
	}
	return "the hub has a session of spokecluster/" + name
}

// hubLeases counts the replicas whose Leases are not over.
func hubLeases(ctx context.Context, p *Patient) string {
	pulse, err := p.Hub.HubPulse(ctx, p.HubNamespace, p.Now())
	if err != nil || pulse.Live == 0 {
		return "" // who may not look sees the Deployment alone
	}
	return fmt.Sprintf("live replicas by their Leases: %d", pulse.Live)
}

// silence says that no replica of the hub lives although some did; empty otherwise, and
// where the Leases cannot be read.
func (p *Patient) silence(ctx context.Context) string {
	pulse, err := p.Hub.HubPulse(ctx, p.HubNamespace, p.Now())
	if err != nil {
		return ""
	}
	return pulse.Silence(p.Now())
}

// noAgent says what the hub knows of a cluster whose Deployment runs no agent.
func noAgent(ctx context.Context, p *Patient) (Level, string) {
	switch {
	case p.silence(ctx) != "":
		return Warn, "no hub lives that could tell of a session"
	case !p.HubStated && !p.hasHub(ctx):
		return Warn, "whether it runs elsewhere cannot be told without --hub-context"
	}
	chain, err := p.Workload.AgentCertificate(ctx, p.AgentNamespace)
	if err != nil {
		return Warn, "without its certificate the hub cannot be asked for a session"
	}
	if _, err := p.Hub.SpokeCluster(ctx, kube.ClusterIn(chain[0])); err != nil && !kube.Absent(err) {
		return Warn, "the hub could not be asked for a session"
	}
	return Fail, "the hub knows of no session"
}

// noHub says what the Leases tell of a hub whose Deployment runs no replica.
func noHub(ctx context.Context, p *Patient) (Level, string) {
	return Fail, cmp.Or(p.silence(ctx), "no Lease tells of a replica elsewhere")
}
