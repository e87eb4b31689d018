package syncclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"

	"dynamic-config.rs/fleet/internal/identity"
)

// causeError is a failure on this side of the connection.
type causeError struct {
	reason string
	err    error
}

func (e *causeError) Error() string { return e.err.Error() }

func (e *causeError) Unwrap() error { return e.err }

// because gives an error a reason; nil stays nil.
func because(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &causeError{reason: reason, err: err}
}

// passing are the hub's reasons that are no word about this agent: another session may
// open at once.
var passing = map[string]bool{
	identity.ReasonDraining: true, identity.ReasonSessionAged: true, identity.ReasonHeartbeatMissed: true,
	identity.ReasonSendBlocked: true, identity.ReasonUnavailable: true,
}

// causeOf is the reason of an ending, never empty, and whether the hub refused this
// agent. handshake is how the last handshake ended.
func causeOf(err, handshake error) (reason string, refused bool) {
	var hub *Error
	if errors.As(err, &hub) && hub.Reason != "" {
		return hub.Reason, !passing[hub.Reason]
	}
	if own, ok := errors.AsType[*causeError](err); ok {
		return own.reason, false
	}
	var name x509.HostnameError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(handshake, &name):
		return identity.ReasonHubNameMismatch, false
	case errors.As(handshake, &certificate):
		return identity.ReasonHubUntrusted, false
	case errors.Is(err, errNoWelcome), isUnreachable(err):
		return identity.ReasonHubUnreachable, false
	}
	return identity.ReasonHubAnswerInvalid, false
}

// handshakes remembers how the last handshake ended: of a failure gRPC leaves a text
// alone.
type handshakes struct {
	credentials.TransportCredentials
	last *atomic.Pointer[error]
}

// ClientHandshake is credentials.TransportCredentials'.
func (h handshakes) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	h.last.Store(&err)
	return conn, info, err
}

// Clone is credentials.TransportCredentials'.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.last}
}

// lastHandshake is how the last handshake of the latest connection ended; nil before.
func (c *Client) lastHandshake() error {
	if c.handshake == nil {
		return nil
	}
	if err := c.handshake.Load(); err != nil {
		return *err
	}
	return nil
}
