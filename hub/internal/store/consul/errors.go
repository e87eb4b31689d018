package consul

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

// classify gives a failure its reason. The library's errors quote bodies and
// addresses, so none of their texts is passed on.
func classify(err error, met *exchange) *store.Error {
	var status api.StatusError
	switch {
	case errors.Is(err, errAbsent):
		return &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errAbsent}
	case errors.Is(err, errTooLarge), isTooLarge(err):
		return &store.Error{Reason: v1alpha1.ReasonDocumentTooLarge, Err: errTooLarge}
	case errors.As(err, &status):
		return byStatus(status, met)
	}
	return link.Fault(err, errNotConsul)
}

// byStatus is the only place that looks into a body: Consul tells an unknown
// token from a missing permission in no other way.
func byStatus(status api.StatusError, met *exchange) *store.Error {
	failure := &store.Error{RetryAfter: met.retryAfter, Err: fmt.Errorf("the store answered %d", status.Code)}
	unknownToken := strings.Contains(status.Body, "ACL not found")
	switch {
	case status.Code == http.StatusUnauthorized, status.Code == http.StatusForbidden && unknownToken:
		failure.Reason, failure.Err = v1alpha1.ReasonCredentialRejected, errors.New("the store does not know the token")
	case status.Code == http.StatusForbidden:
		failure.Reason, failure.Err = v1alpha1.ReasonKeyForbidden, errForbidden
	case status.Code == http.StatusTooManyRequests, status.Code == http.StatusServiceUnavailable && met.retryAfter > 0:
		failure.Reason = v1alpha1.ReasonStoreThrottled
	case status.Code == http.StatusRequestTimeout, status.Code == http.StatusGatewayTimeout:
		failure.Reason = v1alpha1.ReasonStoreTimeout
	case status.Code >= 300 && status.Code < 400:
		failure.Reason = v1alpha1.ReasonStoreUnreachable
		failure.Err = errors.New("the store answered with a redirect, which is not followed")
	default:
		failure.Reason = v1alpha1.ReasonStoreUnreachable
	}
	return failure
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
