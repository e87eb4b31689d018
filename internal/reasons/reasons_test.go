package reasons_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/reasons"
)

// constants are the reasons of the API, and those of sessions and enrolments.
func constants(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"../../api/v1alpha1/conditions.go", "../identity/errors.go"} {
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
	all := constants(t)
	for _, name := range all {
		reason, ok := reasons.Lookup(name)
		if !ok || len(reason.Text) < 20 {
			t.Errorf("%s: explained as %q", name, reason.Text)
			continue
		}
		if strings.ContainsAny(reason.Text, "*`\n#") {
			t.Errorf("%s: markup is left in %q", name, reason.Text)
		}
		blameless := strings.Contains(reason.Text, "Nobody's problem") || name == v1alpha1.ReasonRenderFailed
		if blameless != (reason.Owner == reasons.Nobody) {
			t.Errorf("%s: the owner is %q by %q", name, reason.Owner, reason.Text)
		}
	}
	names := reasons.Names()
	slices.Sort(names)
	if diff := cmp.Diff(all, names); diff != "" {
		t.Errorf("constants and page (-constants +page):\n%s", diff)
	}
}

func TestReasons_Owners(t *testing.T) {
	for reason, want := range map[string]string{
		v1alpha1.ReasonStoreSealed:     "the platform team",
		v1alpha1.ReasonClassNotAllowed: "the tenant (key) or the platform team",
		v1alpha1.ReasonKeyForbidden:    "the class owner or the tenant",
		v1alpha1.ReasonDocumentInvalid: "the document's owner or the tenant",
		v1alpha1.ReasonApplyFailed:     "the workload cluster's administrator",
		v1alpha1.ReasonPending:         "the workload cluster's administrator",
		v1alpha1.ReasonStoreThrottled:  "the platform team",
		v1alpha1.ReasonSuspended:       "whoever set it",
		v1alpha1.ReasonInternalError:   "the product",
		v1alpha1.ReasonRendered:        reasons.Nobody,
	} {
		if got, _ := reasons.Lookup(reason); got.Owner != want {
			t.Errorf("%s: %q, want %q", reason, got.Owner, want)
		}
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
			if cause := reasons.Cause(c.conditions); cause != nil {
				got = cause.Reason
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	if got := reasons.Owner(nil); got != "the workload cluster's administrator" {
		t.Errorf("of nothing: %q", got)
	}
	if got := reasons.Owner([]metav1.Condition{{Type: "Ready", Status: "True", Reason: v1alpha1.ReasonRendered}}); got != reasons.Nobody {
		t.Errorf("of a good one: %q", got)
	}
}
