package apply

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/redact"
)

// Error is why a target was not written.
type Error struct {
	// Reason is a reason of the Applied condition.
	Reason string
	// Message is for people; it never holds a value or a server's free text.
	Message string
	// Err is the cause, for errors.Is and errors.As; its text must not be shown.
	Err error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether it may work without a change to the Render or its
// target: quotas, policies and permissions change elsewhere.
func (e *Error) Retryable() bool {
	switch e.Reason {
	case v1alpha1.ReasonTargetNotOwned, v1alpha1.ReasonTargetConflict, v1alpha1.ReasonTargetImmutable,
		v1alpha1.ReasonTargetTypeConflict, v1alpha1.ReasonTargetInvalid, v1alpha1.ReasonDocumentTooLarge:
		return false
	default:
		return true
	}
}

// refusal makes an Error whose message begins with the target.
func refusal(render *v1alpha1.DynamicConfigRender, reason string, cause error, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: describe(render) + " " + fmt.Sprintf(format, args...), Err: cause}
}

// Fight is the refusal to repair a target that somebody changes each time.
func Fight(render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata) *Error {
	return refusal(render, v1alpha1.ReasonTargetConflict, nil,
		"is changed by %s each time it is written; it is written again later, and ever more rarely",
		cmp.Or(LastWriter(target), "somebody else"))
}

// Admission and conflicts say who only in the text of the answer. The names are
// taken from it, the explanation is not: it may quote a value.
var (
	deniedByWebhook = regexp.MustCompile(`admission webhook "([a-z0-9.-]+)" denied the request`)
	deniedByPolicy  = regexp.MustCompile(`ValidatingAdmissionPolicy '([a-z0-9.-]+)'[^:]* denied request`)
	managerName     = regexp.MustCompile(`conflict with "([^"]+)"`)
	etcdTooLarge    = regexp.MustCompile(`etcdserver: request is too large|trying to send message larger than max`)
	exceededQuota   = regexp.MustCompile(`exceeded quota: ([a-z0-9.-]+),`)
)

// classify maps an answer of the API server to a write to an Error. A Forbidden
// whose cause the answer does not tell comes back as ApplyForbidden.
func classify(render *v1alpha1.DynamicConfigRender, err error) *Error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return refusal(render, v1alpha1.ReasonApplyFailed, err, "was not written: the API server does not answer")
	}
	if denied := classifyAdmission(render, err); denied != nil {
		return denied
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return refusal(render, v1alpha1.ReasonNamespaceTerminating, err, "was not written: its namespace is being deleted")
	case apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		return refusal(render, v1alpha1.ReasonTargetConflict, err, "has fields of another manager (%s): %s",
			conflictingManagers(status), namedFields(status))
	case apierrors.IsForbidden(err):
		return refusal(render, v1alpha1.ReasonApplyForbidden, err, "was not written: the agent is not permitted to")
	case apierrors.IsInvalid(err):
		return classifyInvalid(render, status, err)
	default:
		return refusal(render, v1alpha1.ReasonApplyFailed, err, "was not written: the API server answered %s (%d)",
			redact.Reason(status), status.Status().Code)
	}
}

// isTooLarge recognises the bounds of the API server and of its storage: many small
// keys have larger managed fields than values.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || apierrors.HasStatusCause(err, metav1.CauseTypeTooLong) ||
		(apierrors.IsInternalError(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown) && etcdTooLarge.MatchString(err.Error())
}

// classifyAdmission recognises quotas, webhooks and policies; nil for neither.
func classifyAdmission(render *v1alpha1.DynamicConfigRender, err error) *Error {
	text := err.Error()
	if name := exceededQuota.FindStringSubmatch(text); name != nil && apierrors.IsForbidden(err) {
		return refusal(render, v1alpha1.ReasonQuotaExceeded, err, "was not written: quota %q is exceeded", name[1])
	}
	if name := deniedByWebhook.FindStringSubmatch(text); name != nil {
		return refusal(render, v1alpha1.ReasonAdmissionDenied, err, "was not written: admission webhook %q denied it", name[1])
	}
	if name := deniedByPolicy.FindStringSubmatch(text); name != nil {
		return refusal(render, v1alpha1.ReasonAdmissionDenied, err, "was not written: admission policy %q denied it", name[1])
	}
	return nil
}

// classifyInvalid tells the immutable parts of a target from the rest.
func classifyInvalid(render *v1alpha1.DynamicConfigRender, status apierrors.APIStatus, err error) *Error {
	for _, cause := range redact.Causes(status) {
		switch cause.Field {
		case "type":
			return refusal(render, v1alpha1.ReasonTargetTypeConflict, err,
				"exists with another type, and a type cannot be changed; remove it or state its type")
		case "data", "binaryData", "immutable":
			if cause.Type == metav1.CauseTypeForbidden {
				return refusal(render, v1alpha1.ReasonTargetImmutable, err,
					"is marked immutable; remove it or choose another name")
			}
		}
	}
	return refusal(render, v1alpha1.ReasonTargetInvalid, err, "was refused as invalid: %s", namedFields(status))
}

// namedFields lists the fields an answer names.
func namedFields(status apierrors.APIStatus) string {
	return cmp.Or(redact.Fields(status), "no field named")
}

// conflictingManagers lists the managers that a conflict names, at most three.
func conflictingManagers(status apierrors.APIStatus) string {
	var names []string
	for _, cause := range redact.Causes(status) {
		if name := managerName.FindStringSubmatch(cause.Message); name != nil {
			names = append(names, name[1])
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return strings.Join(names[:min(len(names), 3)], ", ")
}
