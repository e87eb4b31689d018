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

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
)

// enrolTimeout bounds one enrolment.
const enrolTimeout = 30 * time.Second

// Evidence proves to the hub which cluster the agent runs in.
type Evidence interface {
	// Prove puts the evidence into a request whose CSR is already set. It reports
	// false when there is none to give.
	Prove(ctx context.Context, request *fleetv1.EnrollRequest) (bool, error)
}

// JoinTokenFile is a file that holds a join token.
type JoinTokenFile string

// Prove implements Evidence. A file that is absent or empty gives no evidence: it
// may be removed once the cluster has joined.
func (f JoinTokenFile) Prove(_ context.Context, request *fleetv1.EnrollRequest) (bool, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("join token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	request.Evidence = &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{Token: token}}
	return token != "", nil
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
	log.Info("The certificate was not renewed", "cause", err.Error(), "reason", reasonOf(err),
		"notAfter", c.current.NotAfter(), "nextAttempt", c.renewAt)
	return nil
}

// load reads the kept credential once, and keeps one that could not be kept when
// it was new.
func (c *Client) load(ctx context.Context) error {
	if c.current != nil {
		if c.unsaved {
			c.save(ctx)
		}
		return nil
	}
	kept, err := c.config.Credentials.Load(ctx)
	if err != nil && !errors.Is(err, credential.ErrMalformed) {
		return err
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("The kept credential cannot be used", "cause", err.Error())
	}
	if kept == nil {
		return nil
	}
	if of := kept.Cluster(); of != c.config.Cluster {
		return &foreignIdentityError{of: of, want: c.config.Cluster}
	}
	c.use(kept, kept.RenewAt())
	return nil
}

// foreignIdentityError says that the kept credential is another cluster's: an agent
// that went on would speak for that one.
type foreignIdentityError struct{ of, want string }

func (e *foreignIdentityError) Error() string {
	return fmt.Sprintf("the secret %s holds the identity of cluster %q and not of %q: correct --cluster, or delete the secret to enrol anew",
		credential.SecretName, e.of, e.want)
}

// enrol gets a new certificate for a new key.
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
	request := &fleetv1.EnrollRequest{Cluster: c.config.Cluster, CsrDer: csr, Agent: c.config.agent()}
	if err := c.prove(ctx, request); err != nil {
		return err
	}
	if request.GetEvidence() != nil {
		// Evidence may count once: it is not spent on what could not be kept.
		if err := c.config.Credentials.CanSave(ctx); err != nil {
			return err
		}
	}
	conn, err := c.dial(c.current)
	if err != nil {
		return err
	}
	defer conn.Close()
	response, err := fleetv1.NewEnrollmentServiceClient(conn).Enroll(ctx, request)
	if err != nil {
		return fromStatus(err)
	}
	enrolled, err := credential.New(key, response.GetChainDer(), response.GetTrustBundleDer())
	if err != nil {
		return err
	}
	c.use(enrolled, renewalOf(response, enrolled))
	c.save(ctx)
	return nil
}

// prove puts evidence into a request. A certificate that still holds is evidence
// by itself, shown on the connection: a join token would be used up by now.
func (c *Client) prove(ctx context.Context, request *fleetv1.EnrollRequest) error {
	holds := c.current != nil && c.current.ValidAt(time.Now())
	if holds && !c.rejected {
		return nil
	}
	if c.config.Evidence == nil {
		return errNoEvidence
	}
	proven, err := c.config.Evidence.Prove(ctx, request)
	if err == nil && !proven {
		err = errNoEvidence
	}
	return err
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

// save keeps the current credential. Failing is no reason not to use it; it is
// tried again before the next session.
func (c *Client) save(ctx context.Context) {
	err := c.config.Credentials.Save(ctx, c.current)
	c.unsaved = err != nil
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The credential is not kept")
	}
}

// keepBundle keeps the roots that a hub named.
func (c *Client) keepBundle(ctx context.Context, roots []*x509.Certificate) {
	if len(roots) == 0 || c.current.SameBundle(roots) {
		return
	}
	c.current = c.current.WithBundle(roots)
	c.save(ctx)
}

// agent describes the agent to the hub.
func (c *Config) agent() *fleetv1.Agent {
	return &fleetv1.Agent{Version: c.Version, Instance: c.Instance}
}
