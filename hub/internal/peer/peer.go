// Package peer says who is at the other end of a connection, and how a refusal is
// told to it. It is the one place that maps errors to gRPC statuses.
//
// Client certificates are asked for by TLS and verified here, not there: a spoke
// whose certificate is over gets a typed Unauthenticated and enrols again, instead
// of a broken connection it can only guess about.
package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"dynamic-config.rs/fleet/internal/identity"
)

// Identity is a verified peer.
type Identity struct {
	// Cluster is proven by the client certificate.
	Cluster string
	// NotAfter is when that certificate ends.
	NotAfter time.Time

	roots *x509.CertPool // that it was verified with
}

// Verifier verifies client certificates.
type Verifier struct {
	// Roots that a certificate must have been signed by, as of now: the same pool until
	// they change.
	Roots func() *x509.CertPool
	// TrustDomain of the identities.
	TrustDomain string
	// Now is the clock.
	Now func() time.Time
}

// Identify verifies the client certificate of the connection under a call. Its
// errors are *identity.Error.
func (v *Verifier) Identify(ctx context.Context) (Identity, error) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return Identity{}, &identity.Error{Reason: identity.ReasonCertificateMissing, Message: "the call has no connection"}
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return Identity{}, &identity.Error{Reason: identity.ReasonCertificateMissing, Message: "the connection came without a client certificate"}
	}
	return v.verify(info.State.PeerCertificates[0])
}

// Confirm is Identify for a connection that was identified before. A certificate that
// was verified stays so until it ends or the roots change: no signature is computed anew
// before.
func (v *Verifier) Confirm(ctx context.Context, before Identity) (Identity, error) {
	if before.roots != nil && before.roots == v.Roots() && v.Now().Before(before.NotAfter) {
		return before, nil
	}
	return v.Identify(ctx)
}

// verify looks at the certificate alone: what signs the certificates of spokes is
// known, and what a peer sends along to lead to it does not count.
func (v *Verifier) verify(leaf *x509.Certificate) (Identity, error) {
	now := v.Now()
	if now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return Identity{}, &identity.Error{Reason: identity.ReasonCertificateExpired, Message: "the client certificate is over or not yet begun"}
	}
	roots := v.Roots()
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return Identity{}, &identity.Error{Reason: identity.ReasonCertificateInvalid, Message: "the client certificate chains to no root of this hub"}
	}
	cluster, err := identity.ClusterOf(leaf, v.TrustDomain)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Cluster: cluster, NotAfter: leaf.NotAfter, roots: roots}, nil
}

// codeOf says which gRPC code goes with a reason.
var codeOf = map[string]codes.Code{
	identity.ReasonRequestInvalid:     codes.InvalidArgument,
	identity.ReasonNameInvalid:        codes.InvalidArgument,
	identity.ReasonEvidenceInvalid:    codes.PermissionDenied,
	identity.ReasonNotAccepted:        codes.FailedPrecondition,
	identity.ReasonSuspended:          codes.FailedPrecondition,
	identity.ReasonUnknownCluster:     codes.PermissionDenied,
	identity.ReasonCertificateMissing: codes.Unauthenticated,
	identity.ReasonCertificateExpired: codes.Unauthenticated,
	identity.ReasonCertificateInvalid: codes.Unauthenticated,
	identity.ReasonSuperseded:         codes.Aborted,
	identity.ReasonHeartbeatMissed:    codes.DeadlineExceeded,
	identity.ReasonSendBlocked:        codes.DeadlineExceeded,
	identity.ReasonSessionAged:        codes.Aborted,
	identity.ReasonDraining:           codes.Unavailable,
	identity.ReasonTooManyRenders:     codes.ResourceExhausted,
	identity.ReasonTooManyRequests:    codes.ResourceExhausted,
	identity.ReasonUnavailable:        codes.Unavailable,
}

// Status makes the gRPC status of an error: code and ErrorInfo for an
// *identity.Error, with a RetryInfo where it says when to try again, a bare Unavailable for anything else, whose text stays here.
func Status(err error) error {
	if err == nil {
		return nil
	}
	var refusal *identity.Error
	if !errors.As(err, &refusal) {
		refusal = &identity.Error{Reason: identity.ReasonUnavailable, Message: "the hub cannot answer now"}
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: refusal.Reason, Domain: identity.ErrorDomain}}
	if refusal.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(refusal.RetryAfter)})
	}
	st, detailErr := status.New(codeOf[refusal.Reason], refusal.Message).WithDetails(details...)
	if detailErr != nil {
		return status.Error(codes.Internal, refusal.Reason)
	}
	return st.Err()
}
