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

// Why there is no session, where it is not the hub that says so. The hub's own reasons
// are those of package identity.
const (
	// ReasonHubUnreachable: no connection, or no answer in time.
	ReasonHubUnreachable = "HubUnreachable"
	// ReasonHubUntrusted: the hub's certificate chains to no pinned root, or is over.
	ReasonHubUntrusted = "HubUntrusted"
	// ReasonHubNameMismatch: the hub's certificate is for another name.
	ReasonHubNameMismatch = "HubNameMismatch"
	// ReasonHubAnswerInvalid: what answers does not speak as a hub does.
	ReasonHubAnswerInvalid = "HubAnswerInvalid"
	// ReasonHubCAUnreadable: the file with the hub's roots is missing, or is no PEM.
	ReasonHubCAUnreadable = "HubCAUnreadable"
	// ReasonIdentityOfAnotherCluster: the kept credential is another cluster's.
	ReasonIdentityOfAnotherCluster = "IdentityOfAnotherCluster"
	// ReasonIdentityUnavailable: the agent's Secret cannot be read or written.
	ReasonIdentityUnavailable = "IdentityUnavailable"
	// ReasonEvidenceUnavailable: the agent's own API server gives it no token.
	ReasonEvidenceUnavailable = "EvidenceUnavailable"
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
		return ReasonHubNameMismatch, false
	case errors.As(handshake, &certificate):
		return ReasonHubUntrusted, false
	case errors.Is(err, errNoWelcome), isUnreachable(err):
		return ReasonHubUnreachable, false
	}
	return ReasonHubAnswerInvalid, false
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
