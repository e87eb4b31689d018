package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

// Causes that are said in more than one place.
var (
	errNotVault  = errors.New("the answer is not Vault's")
	errTooLarge  = errors.New("the document is larger than 4 MiB")
	errAbsent    = errors.New("the store holds nothing at this key")
	errNoMount   = errors.New("the store has no secrets engine at this key")
	errOtherKV   = errors.New("the key's secrets engine is of another KV version")
	errForbidden = errors.New("the token may not read this key")
	errRedirect  = errors.New("the store answered with a redirect, which is not followed")
)

// envelope is what Vault writes around everything.
type envelope struct {
	RequestID string          `json:"request_id"`
	LeaseID   string          `json:"lease_id"`
	Errors    *[]string       `json:"errors"`
	Warnings  []string        `json:"warnings"`
	Data      json.RawMessage `json:"data"`
	Auth      *auth           `json:"auth"`
}

// open answers the envelope; false when the body is not Vault's.
func (a answer) open() (envelope, bool) {
	var e envelope
	err := json.Unmarshal(a.body, &e)
	return e, err == nil && (e.RequestID != "" || e.Errors != nil)
}

// isForbidden says whether Vault, and not somebody in front of it, answered 403.
func (a answer) isForbidden() bool {
	_, ok := a.open()
	return ok && a.status == http.StatusForbidden
}

// failure is what an answer that gives nothing means. It is nil for a 200 of Vault.
func (a answer) failure() *store.Error {
	e, own := a.open()
	switch {
	case a.status == http.StatusOK && own:
		return nil
	case a.status >= 500 || a.status == http.StatusTooManyRequests || a.status == http.StatusRequestTimeout:
		return a.trouble(e)
	case a.status >= 300 && a.status < 400:
		return unreachable(errRedirect)
	case !own:
		return unreachable(errNotVault)
	case a.status == http.StatusForbidden:
		return &store.Error{Reason: v1alpha1.ReasonKeyForbidden, Err: errForbidden}
	case a.status == http.StatusNotFound:
		return e.absence()
	}
	return unreachable(fmt.Errorf("the store answered %d", a.status))
}

// trouble is what a status means that says that the store, or what stands before it,
// cannot answer now.
func (a answer) trouble(e envelope) *store.Error {
	failure := unreachable(fmt.Errorf("the store answered %d", a.status))
	failure.RetryAfter = a.retryAfter
	switch {
	case a.status == http.StatusTooManyRequests:
		failure.Reason = v1alpha1.ReasonStoreThrottled
	case a.status == http.StatusServiceUnavailable && e.says("sealed"):
		failure.Reason, failure.Err = v1alpha1.ReasonStoreSealed, errors.New("the store is sealed")
	case a.status == http.StatusServiceUnavailable && a.retryAfter > 0:
		failure.Reason = v1alpha1.ReasonStoreThrottled
	case a.status == http.StatusRequestTimeout, a.status == http.StatusGatewayTimeout:
		failure.Reason = v1alpha1.ReasonStoreTimeout
	}
	return failure
}

// says is the only place that looks into a text, for what Vault tells in no other
// way: a sealed store from an overloaded one, and, up to some versions, a wrong secret
// ID from a fault of its own.
func (e envelope) says(word string) bool {
	return e.Errors != nil && strings.Contains(strings.ToLower(strings.Join(*e.Errors, "\n")), word)
}

// absence is what a 404 of Vault means that holds no deleted version.
func (e envelope) absence() *store.Error {
	switch {
	case len(e.Warnings) > 0:
		return &store.Error{Reason: v1alpha1.ReasonClassInvalid, Err: errOtherKV}
	case e.Errors == nil:
		return unreachable(errNotVault)
	case len(*e.Errors) > 0:
		return &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errNoMount}
	}
	return &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errAbsent}
}

// unanswered is what a request means that got no whole answer; status is zero where
// none came.
func unanswered(err error, status int) *store.Error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok && status < 300 {
		return &store.Error{Reason: v1alpha1.ReasonDocumentTooLarge, Err: errTooLarge}
	}
	return link.Fault(err, errNotVault)
}

func unreachable(err error) *store.Error {
	return &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: err}
}
