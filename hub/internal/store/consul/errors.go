package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
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
	case isTimeout(err):
		return &store.Error{Reason: v1alpha1.ReasonStoreTimeout, Err: errors.New("no answer in time")}
	case isTLS(err):
		return &store.Error{Reason: v1alpha1.ReasonStoreTLSFailed, Err: errors.New(tlsFault(err))}
	}
	return &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: networkFault(err)}
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
		failure.Reason, failure.Err = v1alpha1.ReasonKeyForbidden, errors.New("the token may not read this key")
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

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

func isTLS(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return verification || record || alert
}

// tlsFault names the fault by its type; the library's texts may quote what the
// server sent.
func tlsFault(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is signed by an unknown authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another name"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the certificate has expired or is not yet valid"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not accepted"
	}
	return "the TLS handshake failed"
}

// networkFault leaves the address out: it is the platform's, and the message is
// the tenant's.
func networkFault(err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the endpoint's name does not resolve")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return errNotConsul
}
