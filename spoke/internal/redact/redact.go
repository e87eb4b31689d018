// Package redact takes the free text out of what an API server answers.
//
// An admission webhook or policy words its refusal as it likes and may quote the
// object: a Secret's values, or the agent's own key. What passes is what the server
// says in fields of its own: reason and code, kind and name of the object, paths of
// fields. Every error of an API server that may reach a log, a status or an event
// goes through here, or through package apply, which names reasons with it.
package redact

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxFields bounds how many fields of an answer are named.
const maxFields = 10

// serverError is an answer of an API server without its text.
type serverError struct {
	text string
	err  error
}

// Error says what may be shown.
func (e *serverError) Error() string { return e.text }

// Unwrap returns the answer, for errors.Is and errors.As.
func (e *serverError) Unwrap() error { return e.err }

// ServerText returns an error that shows nothing of the text of an API server's
// answer. An error that is none comes back as it is; nil does too.
func ServerText(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	status := answer.Status()
	text := fmt.Sprintf("the API server answered %s (%d)", Reason(answer), status.Code)
	if details := status.Details; details != nil && details.Name != "" {
		text += fmt.Sprintf(" for %s %q", details.Kind, details.Name)
	}
	if fields := Fields(answer); fields != "" {
		text += ": " + fields
	}
	return &serverError{text: text, err: err}
}

// Reason is the reason of an answer, or the name of its code.
func Reason(answer apierrors.APIStatus) string {
	status := answer.Status()
	if status.Reason != metav1.StatusReasonUnknown {
		return string(status.Reason)
	}
	return http.StatusText(int(status.Code))
}

// Causes of an answer; none when it has no details.
func Causes(answer apierrors.APIStatus) []metav1.StatusCause {
	if details := answer.Status().Details; details != nil {
		return details.Causes
	}
	return nil
}

// Fields lists the fields an answer names, at most ten; empty for none.
func Fields(answer apierrors.APIStatus) string {
	var fields []string
	for _, cause := range Causes(answer) {
		if cause.Field != "" {
			fields = append(fields, cause.Field)
		}
	}
	slices.Sort(fields)
	fields = slices.Compact(fields)
	if len(fields) > maxFields {
		fields = append(fields[:maxFields], "...")
	}
	return strings.Join(fields, ", ")
}
