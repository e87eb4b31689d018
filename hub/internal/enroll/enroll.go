// Package enroll gives a spoke its client certificate: it checks the evidence, then
// signs the key of the request for the cluster that the evidence proves.
//
// Evidence is always a token of the agent's ServiceAccount whose audience is bound to
// the key of the request, verified off line against the cluster's keys: those that
// are pinned, or at a first contact those that a one-use join token permits to pin. A
// renewal is the same act; a client certificate proves nothing here. The subject and
// the names in the request are ignored.
package enroll

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

const (
	// minRSABits is what NIST SP 800-57 part 1 asks for beyond 2030, rounded to what
	// keys come in.
	minRSABits = 3072
	// maxRSABits is what crypto/tls accepts: the time to check a signature grows with
	// the square of it, and a stranger chooses it.
	maxRSABits = 8192
)

var (
	errNoRequest  = &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "csr_der is no PKCS #10 request signed by its own key"}
	errNoEvidence = &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "there is no evidence of a kind that this hub knows"}
)

// Signer signs the certificates of spokes.
type Signer interface {
	SignSpoke(public crypto.PublicKey, cluster string, now time.Time, lifetime time.Duration) (*x509.Certificate, error)
	BundleDER() [][]byte
}

// Registry knows which clusters may enrol, and their keys.
type Registry interface {
	Verify(ctx context.Context, cluster string, proof registry.Proof) error
	Join(ctx context.Context, cluster string, joining registry.Joining) error
}

// Config is what a Service needs.
type Config struct {
	Signer   Signer
	Registry Registry
	// TrustDomain of the identities, part of a token's audience.
	TrustDomain string
	// Lifetime of a spoke's certificate.
	Lifetime time.Duration
	// Now is the clock.
	Now func() time.Time
	// Audit takes every answer; nil for none.
	Audit *audit.Log
}

// Service is the EnrollmentService.
type Service struct {
	fleetv1.UnimplementedEnrollmentServiceServer
	cfg    Config
	limits *limits
}

var _ fleetv1.EnrollmentServiceServer = (*Service)(nil)

// New returns a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg, limits: newLimits()} }

// Enroll checks the evidence and signs. Its errors are statuses with an ErrorInfo.
func (s *Service) Enroll(ctx context.Context, req *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	resp, err := s.enroll(ctx, req)
	s.cfg.Audit.Enrolment(ctx, req, err)
	log := ctrl.LoggerFrom(ctx).WithName("enroll")
	var refusal *identity.Error
	switch {
	case err == nil:
		log.Info("Cluster enrolled", "cluster", req.GetCluster(), "notAfter", resp.notAfter)
	case errors.As(err, &refusal) && refusal.Reason == identity.ReasonTooManyRequests:
		// What a stranger can do without end must not fill the log.
		log.V(1).Info("Enrolment put off", "cluster", printable(req.GetCluster()))
	case errors.As(err, &refusal):
		log.Info("Enrolment refused", "cluster", printable(req.GetCluster()), "reason", refusal.Reason, "cause", err.Error())
	default:
		log.Error(err, "Enrolment failed", "cluster", printable(req.GetCluster()))
	}
	if err != nil {
		return nil, peer.Status(err)
	}
	return resp.message, nil
}

type response struct {
	message  *fleetv1.EnrollResponse
	notAfter time.Time
}

func (s *Service) enroll(ctx context.Context, req *fleetv1.EnrollRequest) (*response, error) {
	if err := identity.ValidateCluster(req.GetCluster()); err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	release, err := s.limits.admit(ctx, req.GetCluster(), now)
	if err != nil {
		return nil, err
	}
	defer release()
	public, err := requestKey(req.GetCsrDer())
	if err != nil {
		return nil, err
	}
	if err := s.checkEvidence(ctx, req, public); err != nil {
		return nil, err
	}
	cert, err := s.cfg.Signer.SignSpoke(public, req.GetCluster(), now, s.cfg.Lifetime)
	if err != nil {
		return nil, err
	}
	// Half life, give or take a tenth, so that clusters enrolled together do not
	// renew together.
	renew := s.cfg.Lifetime/2 - s.cfg.Lifetime/10 + rand.N(s.cfg.Lifetime/5+1) //nolint:gosec // G404: spreads load, guards nothing
	return &response{notAfter: cert.NotAfter, message: &fleetv1.EnrollResponse{
		ChainDer:       [][]byte{cert.Raw},
		TrustBundleDer: s.cfg.Signer.BundleDER(),
		RenewAfter:     timestamppb.New(now.Add(renew)),
		ServerTime:     timestamppb.New(now),
	}}, nil
}

// checkEvidence refuses what does not prove that the holder of a key is the agent of
// the claimed cluster.
func (s *Service) checkEvidence(ctx context.Context, req *fleetv1.EnrollRequest, public crypto.PublicKey) error {
	audience, err := identity.TokenAudience(s.cfg.TrustDomain, req.GetCluster(), public)
	if err != nil {
		return err
	}
	switch evidence := req.GetEvidence().(type) {
	case *fleetv1.EnrollRequest_ServiceAccountToken:
		return s.cfg.Registry.Verify(ctx, req.GetCluster(), registry.Proof{Token: evidence.ServiceAccountToken, Audience: audience})
	case *fleetv1.EnrollRequest_JoinToken:
		join := evidence.JoinToken
		return s.cfg.Registry.Join(ctx, req.GetCluster(), registry.Joining{
			JoinToken: join.GetToken(),
			Proof:     registry.Proof{Token: join.GetServiceAccountToken(), Audience: audience},
			Keys:      v1alpha1.ClusterKeys{Issuer: join.GetKeys().GetIssuer(), JWKS: string(join.GetKeys().GetJwks())},
		})
	default:
		return errNoEvidence
	}
}

// requestKey takes the key out of a PKCS #10 request, after checking that the
// sender holds its private half.
func requestKey(der []byte) (crypto.PublicKey, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, errNoRequest
	}
	if !acceptable(csr.PublicKey) {
		return nil, &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "the key must be ECDSA, Ed25519 or RSA of 3072 to 8192 bits"}
	}
	if csr.CheckSignature() != nil {
		return nil, errNoRequest
	}
	return csr.PublicKey, nil
}

func acceptable(key crypto.PublicKey) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		return bits >= minRSABits && bits <= maxRSABits
	}
	return false
}

// printable keeps what an unproven peer claims out of the log unless it is a name.
func printable(cluster string) string {
	if identity.ValidateCluster(cluster) != nil {
		return "(invalid)"
	}
	return cluster
}
