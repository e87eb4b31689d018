package explain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
)

// reasons are the constants of the API, and those of sessions and enrolments.
func reasons(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"../../../api/v1alpha1/conditions.go", "../../identity/errors.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, value)
			return true
		})
	}
	slices.Sort(all)
	all = slices.Compact(all) // Suspended and NotAccepted are both
	if len(all) < 55 {
		t.Fatalf("found %d reasons", len(all))
	}
	return all
}

func TestReasons_EachIsExplainedAndHasAnOwner(t *testing.T) {
	all := reasons(t)
	for _, name := range all {
		reason, ok := explain.Lookup(name)
		if !ok || len(reason.Text) < 20 {
			t.Errorf("%s: explained as %q", name, reason.Text)
			continue
		}
		if strings.ContainsAny(reason.Text, "*`\n#") {
			t.Errorf("%s: markup is left in %q", name, reason.Text)
		}
		blameless := strings.Contains(reason.Text, "Nobody's problem") || name == v1alpha1.ReasonRenderFailed
		if blameless != (reason.Owner == explain.Nobody) {
			t.Errorf("%s: the owner is %q by %q", name, reason.Owner, reason.Text)
		}
	}
	names := explain.Names()
	slices.Sort(names)
	if diff := cmp.Diff(all, names); diff != "" {
		t.Errorf("constants and page (-constants +page):\n%s", diff)
	}
}

func TestReasons_Owners(t *testing.T) {
	for reason, want := range map[string]string{
		v1alpha1.ReasonStoreSealed:     "the platform team",
		v1alpha1.ReasonClassNotAllowed: "the tenant (key) or the platform team",
		v1alpha1.ReasonKeyForbidden:    "the class owner",
		v1alpha1.ReasonDocumentInvalid: "the document's owner",
		v1alpha1.ReasonApplyFailed:     "the workload cluster's administrator",
		v1alpha1.ReasonPending:         "the workload cluster's administrator",
		v1alpha1.ReasonStoreThrottled:  "the platform team",
		v1alpha1.ReasonSuspended:       "whoever set it",
		v1alpha1.ReasonInternalError:   "the product",
		v1alpha1.ReasonRendered:        explain.Nobody,
	} {
		if got, _ := explain.Lookup(reason); got.Owner != want {
			t.Errorf("%s: %q, want %q", reason, got.Owner, want)
		}
	}
}

func TestParagraph_SaysWhatSinceWhenWhoseAndWhatToDoForEveryReason(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, name := range reasons(t) {
		conditions := []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: name,
			LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Minute)), Message: "it is\nso",
		}}
		reason, _ := explain.Lookup(name)
		if name == v1alpha1.ReasonSuspended {
			continue // speaks of two kinds, see below
		}
		kind := explain.Render
		for _, other := range []explain.Kind{explain.Class, explain.Cluster} {
			if strings.Contains(reason.Text, "On a "+string(other)) {
				kind = other
			}
		}
		want := "Render shop/db: Ready is False with " + name + " since 2030-01-02T02:56:00Z (4m ago). " + reason.Text + " It says: it is so"
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
			"no agent has enrolled yet: Ready is False with Disconnected", "no agent holds a session",
		},
		"a lost one is": {
			explain.Object{Kind: explain.Cluster, Conditions: condition(v1alpha1.ReasonDisconnected)},
			"no agent holds a session", "enrolled yet",
		},
		"a new cluster may be suspended": {
			explain.Object{Kind: explain.Cluster, Conditions: condition(v1alpha1.ReasonSuspended), New: true},
			"On a SpokeCluster's Ready: no session is accepted. Whoever set it. It says: words", "Render",
		},
		"a suspended Render has nothing of a cluster": {
			explain.Object{Kind: explain.Render, Conditions: condition(v1alpha1.ReasonSuspended)},
			"nothing is fetched or written, and Ready stays what it was. Whoever set it.", "SpokeCluster",
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

func TestCause(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	failed := condition("Ready", "False", v1alpha1.ReasonRenderFailed)
	rendered := condition("Ready", "True", v1alpha1.ReasonRendered)
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"nothing is said of what nobody has seen": {nil, ""},
		"a failed fetch is finer than Ready": {
			[]metav1.Condition{failed, condition("Fetched", "False", v1alpha1.ReasonStoreSealed)}, v1alpha1.ReasonStoreSealed,
		},
		"a failed apply is finer than Ready": {
			[]metav1.Condition{failed, condition("Fetched", "True", "Fetched"), condition("Applied", "False", v1alpha1.ReasonQuotaExceeded)},
			v1alpha1.ReasonQuotaExceeded,
		},
		"Ready tells where it is no summary": {
			[]metav1.Condition{condition("Ready", "False", v1alpha1.ReasonClassNotFound), condition("Applied", "False", v1alpha1.ReasonQuotaExceeded)},
			v1alpha1.ReasonClassNotFound,
		},
		"suspended counts before the last result": {
			[]metav1.Condition{rendered, condition("Fetched", "Unknown", v1alpha1.ReasonSuspended)}, v1alpha1.ReasonSuspended,
		},
		"a lost hub counts on a Render that was fine": {
			[]metav1.Condition{rendered, condition("Stale", "True", v1alpha1.ReasonHubLost)}, v1alpha1.ReasonHubLost,
		},
		"unknown keys count on a cluster that is fine": {
			[]metav1.Condition{condition("Ready", "True", v1alpha1.ReasonConnected), condition("KeysPinned", "False", v1alpha1.ReasonKeysUnknown)},
			v1alpha1.ReasonKeysUnknown,
		},
		"all is well": {[]metav1.Condition{rendered, condition("Fetched", "True", "Fetched")}, v1alpha1.ReasonRendered},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if cause := explain.Cause(c.conditions); cause != nil {
				got = cause.Reason
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	if got := explain.Owner(nil); got != "the workload cluster's administrator" {
		t.Errorf("of nothing: %q", got)
	}
	if got := explain.Owner([]metav1.Condition{{Type: "Ready", Status: "True", Reason: v1alpha1.ReasonRendered}}); got != explain.Nobody {
		t.Errorf("of a good one: %q", got)
	}
}
