package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

var (
	earlier = metav1.NewTime(time.Unix(1000, 0))
	now     = metav1.NewTime(time.Unix(2000, 0))
)

func testRender() *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pg", UID: "uid", Generation: 4},
		Spec:       v1alpha1.DynamicConfigRenderSpec{Target: v1alpha1.RenderTarget{Secret: "pg"}},
	}
}

func testRef() *fleetv1.RenderRef {
	return &fleetv1.RenderRef{Namespace: "team", Name: "pg", Uid: "uid"}
}

func refusalAnswer(f *fleetv1.Refusal) *answer {
	return &answer{ref: testRef(), generation: 4, refusal: f}
}

func deliverAnswer(handled string) *answer {
	return &answer{ref: testRef(), generation: 4, deliver: &fleetv1.Deliver{HandledSync: handled}}
}

func TestConclude(t *testing.T) {
	cases := map[string]struct {
		v    *verdict
		want map[string]string // condition -> status/reason
		// lastError is whether there is one.
		lastError  bool
		renderedAt *metav1.Time
	}{
		"nobody answered yet": {
			v:    pending(testRender(), waiting),
			want: map[string]string{"Ready": "Unknown/Pending", "Fetched": "True/Fetched", "Applied": "True/Applied"}, renderedAt: &earlier,
		},
		"the target holds new content": {
			v:          rendered(deliverAnswer("sync-1"), "sync-1", true),
			want:       map[string]string{"Ready": "True/Rendered", "Fetched": "True/Fetched", "Applied": "True/Applied"},
			renderedAt: &now,
		},
		"the target held the content": {
			v:          rendered(deliverAnswer(""), "", false),
			want:       map[string]string{"Ready": "True/Rendered", "Fetched": "True/Fetched", "Applied": "True/Applied"},
			renderedAt: &earlier,
		},
		"the target holds new content that was not reported yet": {
			v:          rendered(deliverAnswer(""), "", false).after(rendered(deliverAnswer(""), "", true)),
			want:       map[string]string{"Ready": "True/Rendered", "Fetched": "True/Fetched", "Applied": "True/Applied"},
			renderedAt: &now,
		},
		"a Render of the same name before had new content": {
			v:          rendered(deliverAnswer(""), "", false).after(&verdict{uid: "another", newContent: true}),
			want:       map[string]string{"Ready": "True/Rendered", "Fetched": "True/Fetched", "Applied": "True/Applied"},
			renderedAt: &earlier,
		},
		"the store does not answer": {
			v: refused(refusalAnswer(&fleetv1.Refusal{
				ReadyReason: "RenderFailed", CauseCondition: "Fetched", CauseReason: "StoreTimeout", Message: "slow",
			})),
			want:      map[string]string{"Ready": "False/RenderFailed", "Fetched": "False/StoreTimeout", "Applied": "True/Applied"},
			lastError: true, renderedAt: &earlier,
		},
		"the hub finds a secret that was to go into a ConfigMap": {
			v: refused(refusalAnswer(&fleetv1.Refusal{
				ReadyReason: "RenderFailed", CauseCondition: "Applied", CauseReason: "SecrecyDowngrade", Message: "secret",
			})),
			want:      map[string]string{"Ready": "False/RenderFailed", "Fetched": "True/Fetched", "Applied": "False/SecrecyDowngrade", "Stalled": "True/SecrecyDowngrade"},
			lastError: true, renderedAt: &earlier,
		},
		"there is no such class": {
			v:         refused(refusalAnswer(&fleetv1.Refusal{ReadyReason: "ClassNotFound", Message: "no class"})),
			want:      map[string]string{"Ready": "False/ClassNotFound", "Applied": "True/Applied"},
			lastError: true, renderedAt: &earlier,
		},
		"a reason of a newer hub is a failure to render": {
			v:         refused(refusalAnswer(&fleetv1.Refusal{ReadyReason: "SomethingNew", Message: "new"})),
			want:      map[string]string{"Ready": "False/RenderFailed", "Applied": "True/Applied"},
			lastError: true, renderedAt: &earlier,
		},
		"the target cannot be written until somebody changes it": {
			v:         unapplied(deliverAnswer(""), &apply.Error{Reason: "TargetImmutable", Message: "immutable"}),
			want:      map[string]string{"Ready": "False/RenderFailed", "Fetched": "True/Fetched", "Applied": "False/TargetImmutable", "Stalled": "True/TargetImmutable"},
			lastError: true, renderedAt: &earlier,
		},
		"the class does not serve the Render": {
			v:         refused(refusalAnswer(&fleetv1.Refusal{ReadyReason: "ClassNotAllowed", Message: "no"})),
			want:      map[string]string{"Ready": "False/ClassNotAllowed", "Applied": "True/Applied", "Stalled": "True/ClassNotAllowed"},
			lastError: true, renderedAt: &earlier,
		},
		"the target was not written": {
			v:         unapplied(deliverAnswer(""), &apply.Error{Reason: "QuotaExceeded", Message: "quota"}),
			want:      map[string]string{"Ready": "False/RenderFailed", "Fetched": "True/Fetched", "Applied": "False/QuotaExceeded"},
			lastError: true, renderedAt: &earlier,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status := &v1alpha1.DynamicConfigRenderStatus{RenderedAt: &earlier}
			for condition, reason := range map[string]string{"Ready": "Rendered", "Fetched": "Fetched", "Applied": "Applied"} {
				apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
					Type: condition, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: earlier,
				})
			}
			tc.v.conclude(status, now)
			got := map[string]string{}
			for _, c := range status.Conditions {
				got[c.Type] = string(c.Status) + "/" + c.Reason
				if c.Status == metav1.ConditionTrue && c.Type != v1alpha1.ConditionStalled && !c.LastTransitionTime.Equal(&earlier) {
					t.Errorf("%s: the time moved without a transition", c.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if (status.LastError != nil) != tc.lastError {
				t.Errorf("lastError: %v", status.LastError)
			}
			if !status.RenderedAt.Equal(tc.renderedAt) {
				t.Errorf("renderedAt: %v", status.RenderedAt)
			}
			if status.ObservedGeneration != 4 {
				t.Errorf("observedGeneration: %d", status.ObservedGeneration)
			}
		})
	}
}

func TestVerdict_SpeaksOfOneRenderOnly(t *testing.T) {
	answered := testRender()
	apimeta.SetStatusCondition(&answered.Status.Conditions, metav1.Condition{Type: "Ready", Status: "True", Reason: "Rendered"})
	renewed := testRender()
	renewed.UID = "another"
	cases := map[string]struct {
		v      *verdict
		render *v1alpha1.DynamicConfigRender
		want   bool
	}{
		"no verdict speaks of nothing":                   {render: testRender()},
		"a Render without an answer is pending":          {v: pending(testRender(), waiting), render: testRender(), want: true},
		"a Render with an answer is not pending":         {v: pending(testRender(), waiting), render: answered},
		"a verdict speaks of its Render":                 {v: rendered(deliverAnswer(""), "", true), render: answered, want: true},
		"a verdict is not about a later Render so named": {v: rendered(deliverAnswer(""), "", true), render: renewed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.v.speaksOf(tc.render); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func TestVerdict_IsNews(t *testing.T) {
	saw := func(reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionReady, Reason: reason, Message: message}
	}
	good, bad := rendered(deliverAnswer(""), "", true), refused(refusalAnswer(&fleetv1.Refusal{ReadyReason: "ClassNotFound", Message: "no class"}))
	for name, tc := range map[string]struct {
		v      *verdict
		before *metav1.Condition
		want   bool
	}{
		"a new Render that is rendered is none":         {v: good},
		"a Render that waited and is rendered is none":  {v: good, before: saw("Pending", "")},
		"a Render that is pending is none":              {v: pending(testRender(), waiting), before: saw("RenderFailed", "")},
		"a new Render that fails is":                    {v: bad, want: true},
		"a Render that recovers is":                     {v: good, before: saw("RenderFailed", "down"), want: true},
		"a Render that fails for another cause is":      {v: bad, before: saw("ClassNotFound", "another class"), want: true},
		"a Render that fails for the same cause is not": {v: bad, before: saw("ClassNotFound", "no class")},
		"a Render that stays rendered is none":          {v: good, before: saw("Rendered", stateRendered.message)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.v.isNews(tc.before); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
