package syncclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dynamic-config.rs/fleet/internal/identity"
)

// Why this side ended a session.
var (
	errNoWelcome   = errors.New("the hub did not welcome the session in time")
	errHubSilent   = errors.New("the hub was silent for three heartbeats")
	errSendBlocked = errors.New("the hub did not read for too long")
	errRenewal     = errors.New("the certificate is due for renewal")
	errDrained     = errors.New("the hub asked for a new session")
	errReplaced    = errors.New("a new session took over")
)

// Error is an answer of the hub.
type Error struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the hub's stable reason; empty when it gave none.
	Reason string
	// Message is for people.
	Message string
	// RetryAfter is how long the hub asks us to wait at least; 0 where it does not.
	RetryAfter time.Duration
}

// Error names code, reason and message.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("hub: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("hub: %s: %s: %s", e.Code, e.Reason, e.Message)
}

// fromStatus is the only place that reads gRPC errors.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	e := &Error{Code: s.Code(), Message: s.Message()}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == identity.ErrorDomain {
				e.Reason = detail.GetReason()
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// rejectsCertificate says whether the hub does not accept our certificate.
func rejectsCertificate(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codes.Unauthenticated
}

// retryAfter is how long the hub asks us to wait at least.
func retryAfter(err error) time.Duration {
	var e *Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.RetryAfter
}

// isUnreachable says whether no hub answered, or not in time.
func isUnreachable(err error) bool {
	var e *Error
	return errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &e) && (e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded)
}

// reasonOf is the hub's reason, or empty.
func reasonOf(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Reason
}
