package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func TestLogState_OneLineForAChange(t *testing.T) {
	refused := refused(refusalAnswer(&fleetv1.Refusal{
		ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched, CauseReason: v1alpha1.ReasonStoreSealed, Message: "m",
	}))
	ready := func(v *verdict) *metav1.Condition {
		return &metav1.Condition{Status: v.ready.status, Reason: v.ready.reason, Message: v.ready.message}
	}
	good := rendered(deliverAnswer(""), "", true)
	for name, tc := range map[string]struct {
		before *metav1.Condition
		v      *verdict
		want   string
	}{
		"the first state is one":               {nil, good, `"ready"="True" "reason"="Rendered"`},
		"the same again is none":               {ready(good), good, ""},
		"a refusal names the finest reason":    {ready(good), refused, `"ready"="False" "reason"="StoreSealed"`},
		"a refusal that is repeated is none":   {ready(refused), refused, ""},
		"so does a target that is not written": {ready(good), unapplied(deliverAnswer(""), errors.New("m")), `"ready"="False" "reason"="ApplyFailed"`},
		"back to good":                         {ready(refused), good, `"ready"="True" "reason"="Rendered"`},
		"nothing to say":                       {ready(good), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			logState(ctrl.LoggerInto(t.Context(), log), tc.before, tc.v)
			got := strings.Join(lines, "\n")
			if (tc.want == "") != (got == "") || !strings.HasSuffix(got, tc.want) {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

// A hub that sends ever new reasons does not fill the agent's memory.
func TestCountFailure_IsBounded(t *testing.T) {
	for i := range 1000 {
		countFailure(fmt.Sprintf("Nonsense%d", i))
	}
	ch := make(chan prometheus.Metric, 2000)
	renderFailures.Collect(ch)
	close(ch)
	var series, others int
	for m := range ch {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		series++
		if out.GetLabel()[0].GetValue() == "Other" {
			others = int(out.GetCounter().GetValue())
		}
	}
	if series > maxReasons+1 || others < 1000-maxReasons {
		t.Errorf("%d series, %d others", series, others)
	}
}
