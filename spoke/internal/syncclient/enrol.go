package syncclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
)

// enrolTimeout bounds one enrolment.
const enrolTimeout = 30 * time.Second

// Evidence proves to the hub which cluster the agent runs in.
type Evidence interface {
	// Token returns a new token of the agent's ServiceAccount for one audience.
	Token(ctx context.Context, audience string) (string, error)
	// Keys returns what the cluster signs such tokens with.
	Keys(ctx context.Context) (*fleetv1.ClusterKeys, error)
}

// authenticate sees to it that there is a credential to connect with: the kept
// one, or a new one when that is due, rejected or missing.
func (c *Client) authenticate(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	if err := c.load(ctx); err != nil {
		return err
	}
	usable := c.current != nil && c.current.ValidAt(time.Now())
	if usable && !c.rejected && time.Now().Before(c.renewAt) {
		return nil
	}
	err := c.enrol(ctx)
	if err == nil {
		log.Info("Enrolled", "notAfter", c.current.NotAfter())
		return nil
	}
	if !usable {
		return fmt.Errorf("enrol: %w", err)
	}
	// The certificate at hand is still good. Half of what is left of it leaves
	// time for more attempts.
	c.renewAt = time.Now().Add(time.Until(c.current.NotAfter()) / 2)
	c.rejected = false
	reason, _ := causeOf(err, c.lastHandshake())
	log.Error(err, "The certificate was not renewed", "reason", reason,
		"notAfter", c.current.NotAfter(), "nextAttempt", c.renewAt)
	return nil
}

// load reads the kept credential once.
func (c *Client) load(ctx context.Context) error {
	if c.current != nil {
		return nil
	}
	kept, err := c.config.Credentials.Load(ctx)
	if err != nil && !errors.Is(err, credential.ErrMalformed) {
		return because(identity.ReasonIdentityUnavailable, err)
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("The kept credential cannot be used", "cause", err.Error())
	}
	if kept == nil {
		return nil
	}
	if of := kept.Cluster(); of != c.config.Cluster {
		return because(identity.ReasonIdentityOfAnotherCluster, foreignIdentity(of, c.config.Cluster))
	}
	c.use(kept, kept.RenewAt())
	return nil
}

// foreignIdentity says that the kept credential is another cluster's: an agent that
// went on would speak for that one.
func foreignIdentity(of, want string) error {
	return fmt.Errorf("the secret %s holds the identity of cluster %q and not of %q: correct --cluster, or delete the secret to enrol anew",
		credential.SecretName, of, want)
}

// enrol gets a new certificate for a new key. The credential before it stays in use
// until the new one is kept.
func (c *Client) enrol(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, enrolTimeout)
	defer cancel()
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	csr, err := credential.Request(key)
	if err != nil {
		return err
	}
	audience, err := identity.TokenAudience(c.config.TrustDomain, c.config.Cluster, key.Public())
	if err != nil {
		return err
	}
	token, err := c.config.Evidence.Token(ctx, audience)
	if err != nil {
		return because(identity.ReasonEvidenceUnavailable, err)
	}
	response, err := c.askHub(ctx, csr, token)
	if err != nil {
		return err
	}
	enrolled, err := credential.New(key, response.GetChainDer(), response.GetTrustBundleDer())
	if err != nil {
		return err
	}
	if err := c.config.Credentials.Save(ctx, enrolled); err != nil {
		return because(identity.ReasonIdentityUnavailable, err)
	}
	c.use(enrolled, renewalOf(response, enrolled))
	return nil
}

// askHub asks for a certificate with a token alone. Where the hub refuses that, it
// may not know the cluster's keys yet: then a join token, if there is one, goes along.
// The token alone comes first always, so that the join token is used no more once
// the keys are pinned, also when the answer to its use was lost.
func (c *Client) askHub(ctx context.Context, csr []byte, token string) (*fleetv1.EnrollResponse, error) {
	conn, err := c.dial(c.current)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	hub := fleetv1.NewEnrollmentServiceClient(conn)
	request := &fleetv1.EnrollRequest{
		Cluster: c.config.Cluster, CsrDer: csr, Agent: c.config.agent(),
		Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: token},
	}
	response, err := hub.Enroll(ctx, request)
	if err = fromStatus(err); reasonOf(err) != identity.ReasonEvidenceInvalid {
		return response, err
	}
	join, joinErr := c.joining(ctx, token)
	if joinErr != nil {
		return nil, fmt.Errorf("%w; and without a join: %w", err, joinErr)
	}
	if join == nil {
		return nil, err
	}
	request.Evidence = &fleetv1.EnrollRequest_JoinToken{JoinToken: join}
	response, err = hub.Enroll(ctx, request)
	return response, fromStatus(err)
}

// joining is what a first contact takes; nil where there is no join token. Its file
// may be removed once the cluster has joined.
func (c *Client) joining(ctx context.Context, token string) (*fleetv1.JoinToken, error) {
	if c.config.JoinTokenFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.config.JoinTokenFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("join token: %w", err)
	}
	joinToken := strings.TrimSpace(string(text))
	if joinToken == "" {
		return nil, nil
	}
	keys, err := c.config.Evidence.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("the cluster's keys: %w", err)
	}
	return &fleetv1.JoinToken{Token: joinToken, ServiceAccountToken: token, Keys: keys}, nil
}

// use makes a credential the current one.
func (c *Client) use(current *credential.Credential, renewAt time.Time) {
	c.current, c.renewAt, c.rejected = current, renewAt, false
	c.enrolled.Store(true)
	certificateExpiry.Set(float64(current.NotAfter().Unix()))
}

// renewalOf is when the hub wants us back, by our own clock; half of the
// certificate's life where it does not say.
func renewalOf(response *fleetv1.EnrollResponse, enrolled *credential.Credential) time.Time {
	if response.GetRenewAfter() == nil || response.GetServerTime() == nil {
		return enrolled.RenewAt()
	}
	return time.Now().Add(response.GetRenewAfter().AsTime().Sub(response.GetServerTime().AsTime()))
}

// keepBundle keeps the roots that a hub named. What cannot be kept now is named again
// in the next session.
func (c *Client) keepBundle(ctx context.Context, roots []*x509.Certificate) {
	if len(roots) == 0 || c.current.SameBundle(roots) {
		return
	}
	renewed := c.current.WithBundle(roots)
	if err := c.config.Credentials.Save(ctx, renewed); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The hub's roots are not kept")
		return
	}
	c.current = renewed
}

// agent describes the agent to the hub.
func (c *Config) agent() *fleetv1.Agent {
	return &fleetv1.Agent{Version: c.Version, Instance: c.Instance}
}
