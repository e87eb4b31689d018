package render

import (
	"errors"
	"fmt"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/render"
)

// This file is the one place that maps errors to reasons.

// refusal ends a job with an answer without content.
type refusal struct {
	fleet.Refusal
	// leaves: the Render has no business in its document's feed.
	leaves bool
	// rule that refused; empty where something failed that decides about nobody.
	rule policy.Rule
}

// The rules that come before those of the policy.
const (
	ruleKey   policy.Rule = "key"
	ruleClass policy.Rule = "class"
)

func (r *refusal) Error() string { return r.ReadyReason + ": " + r.Message }

func keyInvalid(err error) error {
	return &refusal{leaves: true, rule: ruleKey, Refusal: fleet.Refusal{
		ReadyReason:    v1alpha1.ReasonRenderFailed,
		CauseCondition: v1alpha1.ConditionFetched, CauseReason: v1alpha1.ReasonKeyInvalid,
		Message: "spec.key: " + err.Error(),
	}}
}

func classNotFound(ref classes.Ref) error {
	return &refusal{leaves: true, rule: ruleClass, Refusal: fleet.Refusal{
		ReadyReason: v1alpha1.ReasonClassNotFound,
		Message:     fmt.Sprintf("the hub has no %s", ref),
	}}
}

func notAllowed(no *policy.Refusal) error {
	return &refusal{leaves: true, rule: no.Rule, Refusal: fromPolicy(no)}
}

// downgrade keeps the Render in the feed: another version may be no secret.
func downgrade(no *policy.Refusal) error {
	return &refusal{rule: no.Rule, Refusal: fromPolicy(no)}
}

func fromPolicy(no *policy.Refusal) fleet.Refusal {
	return fleet.Refusal{
		ReadyReason: no.ReadyReason, CauseCondition: no.CauseCondition,
		CauseReason: no.CauseReason, Message: no.Message,
	}
}

// fetchFailed is the refusal for what a feed reports.
func fetchFailed(class *classes.Class, err error) error {
	var failed *store.Error
	if !errors.As(err, &failed) {
		failed = &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Op: "fetch", Err: errors.New("the store could not be asked")}
	}
	return unreadable(class, failed, false)
}

func unreadable(class *classes.Class, err *store.Error, leaves bool) error {
	return &refusal{leaves: leaves, Refusal: fleet.Refusal{
		ReadyReason:    v1alpha1.ReasonRenderFailed,
		CauseCondition: v1alpha1.ConditionFetched, CauseReason: err.Reason,
		Message: fmt.Sprintf("%s: %s", class.Ref, err.Error()),
	}}
}

// aboutDocument are the reasons of the renderer that speak of the document itself;
// the others speak of the target.
var aboutDocument = map[string]bool{
	v1alpha1.ReasonDocumentInvalid:  true,
	v1alpha1.ReasonDocumentTooLarge: true,
}

func renderFailed(err error) error {
	var failed *render.Error
	if !errors.As(err, &failed) {
		return err
	}
	condition := v1alpha1.ConditionApplied
	if aboutDocument[failed.Reason] {
		condition = v1alpha1.ConditionFetched
	}
	return &refusal{Refusal: fleet.Refusal{
		ReadyReason:    v1alpha1.ReasonRenderFailed,
		CauseCondition: condition, CauseReason: failed.Reason,
		Message: failed.Error(),
	}}
}
