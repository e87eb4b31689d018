package doctor

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestLifetime(t *testing.T) {
	for name, c := range map[string]struct {
		from, until time.Duration
		want        Level
		says        string
	}{
		"a fresh one is fine":             {-time.Hour, 23 * time.Hour, OK, "ends at 2030-01-01T23:00:00Z, in 23h"},
		"one that ends soon is a warning": {-20 * time.Hour, 4 * time.Hour, Warn, "in 4h"},
		"one that is over fails":          {-24 * time.Hour, 0, Fail, "is over: it ended at 2030-01-01T00:00:00Z"},
		"one of the future fails":         {time.Hour, 24 * time.Hour, Fail, "is not valid before 2030-01-01T01:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			certificate := &x509.Certificate{NotBefore: now.Add(c.from), NotAfter: now.Add(c.until)}
			got := lifetime(certificate, "side", "check", now, 6*time.Hour, "hint")
			if len(got) != 1 || got[0].Level != c.want || !strings.Contains(got[0].Message, c.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestClocks(t *testing.T) {
	at := func(skew time.Duration) answer { return answer{ok: true, dated: true, skew: skew} }
	for name, c := range map[string]struct {
		workload, hub answer
		want          Level
	}{
		"the same wrong time is fine":         {at(time.Hour), at(time.Hour), OK},
		"seconds are fine":                    {at(0), at(-3 * time.Second), OK},
		"half of what certificates allow":     {at(0), at(3 * time.Minute), Warn},
		"more than certificates allow":        {at(-3 * time.Minute), at(3 * time.Minute), Fail},
		"a server without a time is no proof": {at(0), answer{ok: true}, Warn},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clocks(c.workload, c.hub); got.Level != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestTroubleOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason}}
	}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       trouble
		ok         bool
	}{
		"what is ready has none": {ready("True", v1alpha1.ReasonRendered), trouble{Warn, v1alpha1.ReasonRendered, "nobody"}, false},
		"what nobody has seen is a warning": {
			nil, trouble{Warn, v1alpha1.ReasonPending, "the workload cluster's administrator"}, true,
		},
		"a tenant's mistake is a warning": {
			ready("False", v1alpha1.ReasonClassNotFound), trouble{Warn, v1alpha1.ReasonClassNotFound, "the tenant"}, true,
		},
		"a cluster without an agent fails": {
			ready("False", v1alpha1.ReasonDisconnected), trouble{Fail, v1alpha1.ReasonDisconnected, "the workload cluster's administrator"}, true,
		},
		"a lost hub fails, though the Render is ready": {
			append(ready("True", v1alpha1.ReasonRendered), metav1.Condition{Type: v1alpha1.ConditionStale, Status: "True", Reason: v1alpha1.ReasonHubLost}),
			trouble{Fail, v1alpha1.ReasonHubLost, "the platform team"},
			true,
		},
		"a failure without a cause is one, too": {ready("False", v1alpha1.ReasonRenderFailed), trouble{Warn, v1alpha1.ReasonRenderFailed, "nobody"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := troubleOf(c.conditions)
			if got != c.want || ok != c.ok {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}

func TestReport_NamesAFewAndCountsTheRest(t *testing.T) {
	groups := map[trouble][]string{
		{Warn, "B", "the tenant"}: {"n/7", "n/1", "n/2", "n/3", "n/4", "n/5", "n/6"},
		{Fail, "A", "nobody"}:     {"x"},
	}
	want := []Finding{
		{Fail, "side", "check", "1 of 9 have A, for nobody: x", "dynconf why A"},
		{Warn, "side", "check", "7 of 9 have B, for the tenant: n/1, n/2, n/3, n/4, n/5 and 2 more", "dynconf why B"},
	}
	got := report("side", "check", groups, 9, byReason)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if Worst(got) != Fail || Worst(got[1:]) != Warn || Worst(report("s", "c", nil, 3, byReason)) != OK {
		t.Error("the worst is not the worst")
	}
}
