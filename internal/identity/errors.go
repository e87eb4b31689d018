package identity

import "time"

// ErrorDomain is the domain of every ErrorInfo in a gRPC status of this product.
const ErrorDomain = "dynamic-config.rs"

// Reasons for which a hub refuses an enrolment or a session. They travel in the
// ErrorInfo of a gRPC status and never change.
const (
	// ReasonRequestInvalid: the request is malformed; the message says where.
	ReasonRequestInvalid = "RequestInvalid"
	// ReasonNameInvalid: the claimed cluster name is not a DNS label.
	ReasonNameInvalid = "NameInvalid"
	// ReasonEvidenceInvalid: the evidence does not prove the claimed name. The
	// answer is the same whether the cluster is known or not.
	ReasonEvidenceInvalid = "EvidenceInvalid"
	// ReasonNotAccepted: a platform administrator has not accepted the cluster.
	ReasonNotAccepted = "NotAccepted"
	// ReasonSuspended: a platform administrator suspended the cluster.
	ReasonSuspended = "Suspended"
	// ReasonUnknownCluster: the certificate is good and no SpokeCluster has its
	// name.
	ReasonUnknownCluster = "UnknownCluster"
	// ReasonCertificateMissing: the connection came without a client certificate.
	ReasonCertificateMissing = "CertificateMissing"
	// ReasonCertificateExpired: the client certificate is over or not yet begun.
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonCertificateInvalid: the client certificate chains to no root of the
	// hub, or its names are not those of one cluster.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonSuperseded: a newer session of the same cluster took over.
	ReasonSuperseded = "Superseded"
	// ReasonHeartbeatMissed: three heartbeats in a row did not come.
	ReasonHeartbeatMissed = "HeartbeatMissed"
	// ReasonSendBlocked: the peer did not read for 30 seconds.
	ReasonSendBlocked = "SendBlocked"
	// ReasonSessionAged: the session reached its age or its certificate's end.
	ReasonSessionAged = "SessionAged"
	// ReasonDraining: this replica stops; another serves.
	ReasonDraining = "Draining"
	// ReasonTooManyRenders: the inventory is larger than the hub takes.
	ReasonTooManyRenders = "TooManyRenders"
	// ReasonTooManyRequests: more enrolments than the hub takes from one source, or
	// in all, or more sessions than it takes from one cluster; try again after what the RetryInfo says.
	ReasonTooManyRequests = "TooManyRequests"
	// ReasonUnavailable: the hub cannot answer now; try again.
	ReasonUnavailable = "Unavailable"
)

// Reasons for which an agent has no session, where it is not the hub that says so. They
// are in its log, its events, and the messages of Renders that wait.
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

// Error is a typed refusal of an identity.
type Error struct {
	// Reason is one of the constants above.
	Reason string
	// Message is for people and holds no credential.
	Message string
	// RetryAfter is when to try again at the earliest; 0 where nothing is said.
	RetryAfter time.Duration
}

// Error is the reason and the message.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }
