package store

import (
	"errors"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// What is being done where no document is asked for: words of an error, which stand in
// the status of the class.
const (
	OpOpen  = "open the store"
	OpCheck = "check the store"
)

// Error is why a store did not give a document.
type Error struct {
	// Reason is a reason of the Fetched condition; KeyInvalid where the store knows
	// no such form of key; ClassInvalid where opening finds the class unusable.
	Reason string
	// Op is what was being done: fetch, watch, OpOpen or OpCheck.
	Op string
	// Key that it was done to; empty where it was none.
	Key string
	// RetryAfter is how long the store asked to be left alone; zero when it did not.
	RetryAfter time.Duration
	// Err is the cause in words that may be shown: a store puts no text of its
	// server in it.
	Err error
}

// Error reads "fetch a/b: connection refused".
func (e *Error) Error() string {
	text := e.Op
	if e.Key != "" {
		text += " " + e.Key
	}
	if e.Err == nil {
		return text + ": " + e.Reason
	}
	return text + ": " + e.Err.Error()
}

// Unwrap answers the cause.
func (e *Error) Unwrap() error {
	return e.Err
}

// ReasonOf answers the reason of the *Error in err, or "" where there is none.
func ReasonOf(err error) string {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Reason
	}
	return ""
}

// IsAbsent says whether err is the store's word that there is no document: never
// written, not visible, or deleted.
func IsAbsent(err error) bool {
	reason := ReasonOf(err)
	return reason == v1alpha1.ReasonDocumentNotFound || reason == v1alpha1.ReasonDocumentDeleted
}
