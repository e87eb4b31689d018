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
		want := "Render shop/db: Ready is False with " + name + " since 2030-01-02T02:56:00Z (4m ago). " + reason.Text + " It says: it is so"
		if diff := cmp.Diff(want, explain.Paragraph("Render shop/db", conditions, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParagraph_LeavesOutWhatAllIsWellSays(t *testing.T) {
	conditions := []metav1.Condition{{Type: "Ready", Status: "True", Reason: v1alpha1.ReasonRendered, Message: "fine"}}
	if got := explain.Paragraph("x", conditions, time.Now()); strings.Contains(got, "fine") || strings.Contains(got, "True. The target") {
		t.Errorf("got %q", got)
	}
}

func TestParagraph_WithoutAKnownReason(t *testing.T) {
	now := time.Now()
	if got := explain.Paragraph("x", nil, now); !strings.Contains(got, "nobody has looked at it yet") {
		t.Errorf("got %q", got)
	}
	newer := []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Newer", Message: "\x1b[31mred"}}
	got := explain.Paragraph("x", newer, now)
	if !strings.Contains(got, "does not know the reason") || strings.Contains(got, "\x1b") || !strings.Contains(got, "<unknown>") {
		t.Errorf("got %q", got)
	}
}
