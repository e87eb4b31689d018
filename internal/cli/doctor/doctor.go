package doctor

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/internal/cli/kube"
)

// Level is how bad a finding is.
type Level string

// The levels, from good to bad.
const (
	OK   Level = "OK"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Finding is what a check says.
type Finding struct {
	Level   Level  `json:"level"`
	Side    string `json:"side"`
	Check   string `json:"check"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Patient is what is looked at.
type Patient struct {
	Workload, Hub *kube.Conn
	// HubStated says that the hub cluster was named; otherwise it may be elsewhere.
	HubStated bool
	// Namespace bounds which Renders are looked at; empty for all.
	Namespace string
	// HubNamespace and AgentNamespace are where hub and agent run.
	HubNamespace, AgentNamespace string
	// Now is the caller's clock.
	Now func() time.Time
}

// check looks at one thing.
type check func(ctx context.Context, p *Patient) []Finding

// Examine makes every check, in an order in which the first failure explains the
// following ones. A cluster that does not answer is not asked again.
func Examine(ctx context.Context, p *Patient) []Finding {
	workload := p.answers(ctx, p.Workload)
	findings := workload.findings
	if workload.ok {
		findings = append(findings, all(ctx, p, workloadDefinitions, workloadRights, agentRuns, agentCertificate, agentWord, renders)...)
	}
	hub := p.answers(ctx, p.Hub)
	findings = append(findings, hub.findings...)
	if hub.ok {
		findings = append(findings, hubChecks(ctx, p)...)
	}
	if workload.ok && hub.ok {
		findings = append(findings, clocks(workload, hub))
	}
	return findings
}

// hubChecks look at the hub cluster; at nothing where there is no hub.
func hubChecks(ctx context.Context, p *Patient) []Finding {
	if !p.HubStated && !p.hasHub(ctx) {
		return []Finding{{Warn, kube.HubSide, "hub", "there is no hub in this cluster", "--hub-context names the hub's cluster"}}
	}
	findings := all(ctx, p, hubDefinitions, hubRights, hubRuns, hubRoots)
	told := all(ctx, p, classes, spokeClusters)
	if silence := p.silence(ctx); silence != "" {
		findings = append(findings, Finding{Fail, kube.HubSide, "hub's replicas", silence, "what it said is that old: look at its pods and their logs"})
		told = outdated(told)
	}
	return append(findings, told...)
}

// outdated takes back what is well by the word of a hub that does not live.
func outdated(findings []Finding) []Finding {
	for i := range findings {
		f := &findings[i]
		f.Message += "; a hub that no longer lives said so"
		if f.Level == OK {
			f.Level = Warn
		}
	}
	return findings
}

func all(ctx context.Context, p *Patient, checks ...check) []Finding {
	var findings []Finding
	for _, c := range checks {
		findings = append(findings, c(ctx, p)...)
	}
	return findings
}

// Worst is the worst level of some findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level == Fail || f.Level == Warn && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

// Table is findings as rows.
func Table(findings []Finding) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range []string{"Level", "Side", "Check", "Message"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, f := range findings {
		message := f.Message
		if f.Hint != "" {
			message += " (hint: " + f.Hint + ")"
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{string(f.Level), f.Side, f.Check, message}})
	}
	return table
}

// one is a single finding as several.
func one(level Level, side, check, message, hint string) []Finding {
	return []Finding{{level, side, check, message, hint}}
}

// unseen is the finding of a check that could not be made.
func unseen(side, check string, err error) []Finding {
	if apierrors.IsForbidden(err) {
		return one(Warn, side, check, "you may not look", "ask for the right to read it")
	}
	return one(Warn, side, check, "cannot be looked at: "+err.Error(), "")
}
