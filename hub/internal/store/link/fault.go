package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// Fault gives an error of a request that got no whole answer its reason: a timeout,
// TLS, or else StoreUnreachable. Libraries' errors quote bodies and addresses, so
// none of their texts is passed on; other is said where the kind of fault is
// unknown.
func Fault(err, other error) *store.Error {
	switch {
	case isTimeout(err):
		return &store.Error{Reason: v1alpha1.ReasonStoreTimeout, Err: errors.New("no answer in time")}
	case isTLS(err):
		return &store.Error{Reason: v1alpha1.ReasonStoreTLSFailed, Err: errors.New(tlsFault(err))}
	}
	return &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: networkFault(err, other)}
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
	return verification || record || alertOf(err) != nil
}

// alertOf is the alert by which the other side ended the connection; nil where it
// did not. Its type is unexported, its text one of a fixed list.
func alertOf(err error) error {
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "remote error" {
		return network.Err
	}
	return nil
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
	if alert := alertOf(err); alert != nil {
		return "the store ended the TLS connection: " + strings.TrimPrefix(alert.Error(), "tls: ")
	}
	return "the TLS handshake failed"
}

// networkFault leaves the address out: it is the platform's, and the message is
// the tenant's.
func networkFault(err, other error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the endpoint's name does not resolve")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return other
}
