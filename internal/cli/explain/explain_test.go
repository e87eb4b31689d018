package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/reasons"
)

func TestParagraph_SaysWhatSinceWhenWhoseAndWhatToDoForEveryReason(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, name := range reasons.Names() {
		conditions := []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: name,
			LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Minute)), Message: "it is\nso",
		}}
		reason, _ := reasons.Lookup(name)
		if name == v1alpha1.ReasonSuspended {
			continue // speaks of two kinds, see below
		}
		kind := explain.Render
		for _, other := range []explain.Kind{explain.Class, explain.Cluster} {
			if strings.Contains(reason.Text, "On a "+string(other)) {
				kind = other
			}
		}
		want := "Render shop/db: Ready has been False since 2030-01-02T02:56:00Z (4m ago), now with " + name + ". " + reason.Text + " It says: it is so"
		if diff := cmp.Diff(want, explain.Paragraph(&explain.Object{Kind: kind, Title: "Render shop/db", Conditions: conditions}, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParagraph_OfAClusterAndOfAClass(t *testing.T) {
	condition := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "words"}}
	}
	for name, c := range map[string]struct {
		object      explain.Object
		says, never string
	}{
		"a cluster that no agent came from is not a lost one": {
			explain.Object{Kind: explain.Cluster, Conditions: condition(v1alpha1.ReasonDisconnected), New: true},
			"no agent has enrolled yet: Ready has been False since ", "no agent holds a session",
		},
		"a lost one is": {
			explain.Object{Kind: explain.Cluster, Conditions: condition(v1alpha1.ReasonDisconnected)},
			"no agent holds a session", "enrolled yet",
		},
		"a new cluster may be suspended": {
			explain.Object{Kind: explain.Cluster, Conditions: condition(v1alpha1.ReasonSuspended), New: true},
			"On a SpokeCluster's Ready: no session is accepted, until dynconf cluster resume NAME. Whoever set it. It says: words", "Render",
		},
		"a suspended Render has nothing of a cluster": {
			explain.Object{Kind: explain.Render, Conditions: condition(v1alpha1.ReasonSuspended)},
			"nothing is fetched or written, and Ready stays what it was, until dynconf resume NAME. Whoever set it.", "SpokeCluster",
		},
		"a cluster that no hub has seen has nothing of a Render": {
			explain.Object{Kind: explain.Cluster, New: true}, "nobody has looked at it yet. The platform team's", "session",
		},
		"a class that no hub has seen, either": {explain.Object{Kind: explain.Class}, "The platform team's", "session"},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain.Paragraph(&c.object, time.Now())
			if !strings.Contains(got, c.says) || strings.Contains(got, c.never) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestParagraph_LeavesOutWhatAllIsWellSays(t *testing.T) {
	conditions := []metav1.Condition{{Type: "Ready", Status: "True", Reason: v1alpha1.ReasonRendered, Message: "fine"}}
	if got := explain.Paragraph(&explain.Object{Kind: explain.Render, Title: "x", Conditions: conditions}, time.Now()); strings.Contains(got, "fine") || strings.Contains(got, "True. The target") {
		t.Errorf("got %q", got)
	}
}

func TestParagraph_WithoutAKnownReason(t *testing.T) {
	now := time.Now()
	if got := explain.Paragraph(&explain.Object{Kind: explain.Render, Title: "x"}, now); !strings.Contains(got, "nobody has looked at it yet") {
		t.Errorf("got %q", got)
	}
	newer := []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Newer", Message: "\x1b[31mred"}}
	got := explain.Paragraph(&explain.Object{Kind: explain.Render, Title: "x", Conditions: newer}, now)
	if !strings.Contains(got, "does not know the reason") || strings.Contains(got, "\x1b") || !strings.Contains(got, "<unknown>") {
		t.Errorf("got %q", got)
	}
}
