package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// rootSoon is when a root that ends is worth a warning: to replace one takes a release
// or two of every agent.
const rootSoon = 90 * 24 * time.Hour

// program is the agent or the hub, and where its Deployment should be.
type program struct {
	conn                             *kube.Conn
	name, component, namespace, flag string
	// seen says by what it is known to run, whoever runs it; empty for by nothing.
	seen func(ctx context.Context, p *Patient) string
	// absent says what it means, and how bad it is, where it is known by nothing.
	absent func(ctx context.Context, p *Patient) (Level, string)
}

func agentRuns(ctx context.Context, p *Patient) []Finding {
	return runs(ctx, p, &program{p.Workload, "agent", "spoke", p.AgentNamespace, "--agent-namespace", agentSession, noAgent})
}

func hubRuns(ctx context.Context, p *Patient) []Finding {
	return runs(ctx, p, &program{p.Hub, "hub", "hub", p.HubNamespace, "--hub-namespace", hubLeases, noHub})
}

// component are the labels of what one of the two charts installs.
func component(name string) client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/part-of": "dynamic-config", "app.kubernetes.io/component": name}
}

// runs looks at the Deployments of a program, and where they run nothing at whether it
// runs without them: as a process on some machine, for instance.
func runs(ctx context.Context, p *Patient, what *program) []Finding {
	list := &appsv1.DeploymentList{}
	if err := what.conn.List(ctx, list, client.InNamespace(what.namespace), component(what.component)); err != nil {
		return unseen(what.conn.Side, what.name, err)
	}
	var wanted, ready int32
	for i := range list.Items {
		replicas := int32(1) // the API's own default
		if r := list.Items[i].Spec.Replicas; r != nil {
			replicas = *r
		}
		wanted += replicas
		ready += list.Items[i].Status.ReadyReplicas
	}
	if ready == 0 {
		if seen := what.seen(ctx, p); seen != "" {
			return outside(what, seen, wanted)
		}
	}
	if len(list.Items) == 0 {
		return one(Warn, what.conn.Side, what.name, "no Deployment in namespace "+what.namespace, "installed elsewhere? "+what.flag)
	}
	message := fmt.Sprintf("%d of %d replicas are ready in namespace %s", ready, wanted, what.namespace)
	hint := fmt.Sprintf("kubectl -n %s get pods -l app.kubernetes.io/component=%s", what.namespace, what.component)
	switch {
	case wanted == 0:
		level, why := what.absent(ctx, p)
		return one(level, what.conn.Side, what.name, fmt.Sprintf("its Deployment in namespace %s wants no replica, and %s", what.namespace, why),
			"scale the Deployment, or look at its process where it runs outside")
	case ready == 0:
		return one(Fail, what.conn.Side, what.name, message, hint)
	case ready < wanted:
		return one(Warn, what.conn.Side, what.name, message, hint)
	}
	return one(OK, what.conn.Side, what.name, message, "")
}

// agentCertificate looks at the agent's certificate, never at its key.
func agentCertificate(ctx context.Context, p *Patient) []Finding {
	const check = "agent's certificate"
	chain, err := p.Workload.AgentCertificate(ctx, p.AgentNamespace)
	switch {
	case kube.Absent(err):
		return one(Warn, kube.WorkloadSide, check, "the agent has none yet", "has the cluster been enrolled? dynconf cluster enroll")
	case err != nil:
		return unseen(kube.WorkloadSide, check, err)
	}
	return lifetime(chain[0], kube.WorkloadSide, check, p.Now(), chain[0].NotAfter.Sub(chain[0].NotBefore)/4,
		"the agent renews at half of its life: see its log")
}

// hubRoots looks at the roots that the hub publishes.
func hubRoots(ctx context.Context, p *Patient) []Finding {
	const check = "hub's roots"
	text, err := p.Hub.HubRoots(ctx, p.HubNamespace)
	switch {
	case kube.Absent(err):
		return one(Warn, kube.HubSide, check, "not published in namespace "+p.HubNamespace, "the hub makes them at its first start; --hub-namespace")
	case err != nil:
		return unseen(kube.HubSide, check, err)
	}
	roots, err := kube.ParseCertificates(text)
	if err != nil {
		return one(Fail, kube.HubSide, check, err.Error(), "restart the hub: it writes ConfigMap "+kube.HubRootsConfigMap)
	}
	var findings []Finding
	for _, root := range roots {
		findings = append(findings, lifetime(root, kube.HubSide, check, p.Now(), rootSoon, "add a root beside it before it ends")...)
	}
	return findings
}

// lifetime looks at how long a certificate is valid yet.
func lifetime(c *x509.Certificate, side, check string, now time.Time, soon time.Duration, hint string) []Finding {
	left := c.NotAfter.Sub(now)
	until := "ends at " + c.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case left <= 0:
		return one(Fail, side, check, "is over: it ended at "+c.NotAfter.UTC().Format(time.RFC3339), hint)
	case now.Before(c.NotBefore):
		return one(Fail, side, check, "is not valid before "+c.NotBefore.UTC().Format(time.RFC3339), "do the clocks agree?")
	case left < soon:
		return one(Warn, side, check, until+", in "+duration.HumanDuration(left), hint)
	}
	return one(OK, side, check, until+", in "+duration.HumanDuration(left), "")
}

// hasHub says whether there is any sign of a hub in the hub cluster.
func (p *Patient) hasHub(ctx context.Context) bool {
	if _, err := p.Hub.HubRoots(ctx, p.HubNamespace); err == nil {
		return true
	}
	list := &v1alpha1.SpokeClusterList{}
	err := p.Hub.List(ctx, list, client.Limit(1))
	return err == nil && len(list.Items) > 0
}
