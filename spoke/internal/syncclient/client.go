package syncclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
)

// Receiver takes the hub's answers. Its methods are called by the goroutine that
// receives, so they must not block.
type Receiver interface {
	// Deliver takes content; reply answers it, from any goroutine, once.
	Deliver(d *fleetv1.Deliver, reply func(*fleetv1.DeliveryResult))
	// Current takes the news that the target holds what it should.
	Current(*fleetv1.Current)
	// Refuse takes the news that there is no content, and why.
	Refuse(*fleetv1.Refusal)
	// Connected is told whether there is a session.
	Connected(bool)
}

// Credentials keep the agent's credential.
type Credentials interface {
	// Load returns the credential, or nil when there is none. An error that is
	// credential.ErrMalformed means that there is none to use.
	Load(ctx context.Context) (*credential.Credential, error)
	// Save keeps a credential.
	Save(ctx context.Context, c *credential.Credential) error
}

// Config configures a Client.
type Config struct {
	// Address of the hub, host:port.
	Address string
	// ServerName in the hub's certificate.
	ServerName string
	// CAFile holds the hub's roots in PEM. It is read at every connect.
	CAFile string
	// Cluster is the name the agent enrols for, TrustDomain the hub's.
	Cluster, TrustDomain string
	// Version and Instance of the agent, for people.
	Version, Instance string
	// Credentials keep the client certificate.
	Credentials Credentials
	// Evidence proves the cluster when enrolling.
	Evidence Evidence
	// JoinTokenFile holds a join token for the first contact of a cluster whose keys
	// the hub does not know; empty for none.
	JoinTokenFile string
	// Receiver takes the hub's answers.
	Receiver Receiver
	// Backoff between sessions.
	Backoff Backoff
	// DialOptions are added to every connection.
	DialOptions []grpc.DialOption
}

// Validate checks the configuration.
func (c *Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("hub address: %w", err)
	}
	switch {
	case c.ServerName == "":
		return errors.New("hub server name is empty")
	case c.CAFile == "":
		return errors.New("hub CA file is empty")
	case c.Cluster == "":
		return errors.New("cluster name is empty")
	case c.TrustDomain == "":
		return errors.New("trust domain is empty")
	case c.Evidence == nil:
		return errors.New("nothing to enrol with")
	case c.Credentials == nil:
		return errors.New("no place for credentials")
	case c.Receiver == nil:
		return errors.New("no receiver")
	}
	return nil
}

// Client holds sessions with the hub, one after the other.
type Client struct {
	config Config
	outbox *outbox
	// enrolled is set once there was a certificate to connect with.
	enrolled atomic.Bool

	// What follows belongs to Run's goroutine.

	sessions uint64
	current  *credential.Credential
	// rejected says that the hub did not accept current.
	rejected bool
	// renewAt is when to enrol again; later than current's RenewAt after an
	// attempt that failed.
	renewAt time.Time
}

// New returns a Client; call Run to connect it.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Backoff = config.Backoff.withDefaults()
	return &Client{config: config, outbox: newOutbox()}, nil
}

// Upsert makes a spec part of the inventory, and tells the hub when it differs
// from what the hub knows. The Client owns the spec from then on.
func (c *Client) Upsert(spec *fleetv1.RenderSpec) { c.outbox.upsert(spec, false) }

// Ask is an Upsert that always tells the hub, so that it answers again.
func (c *Client) Ask(spec *fleetv1.RenderSpec) { c.outbox.upsert(spec, true) }

// Remove takes a Render out of the inventory and tells the hub.
func (c *Client) Remove(ref *fleetv1.RenderRef) { c.outbox.remove(ref) }

// Enrolled says whether the agent has, or had, a certificate of the hub.
func (c *Client) Enrolled() bool { return c.enrolled.Load() }

// Run holds sessions until ctx ends. The inventory must be whole when it is
// called: what is missing is taken for deleted by the hub. It returns nil.
func (c *Client) Run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("syncclient").WithValues("hub", c.config.Address)
	ctx = logr.NewContext(ctx, log)
	again := retry{backoff: c.config.Backoff}
	for {
		end := c.once(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // to be told to end is no failure
		}
		c.rejected = c.rejected || rejectsCertificate(end.err)
		delay := again.after(end)
		log.Info("No session with the hub", "cause", end.err.Error(), "reason", reasonOf(end.err),
			"wasEstablished", end.established, "retryIn", delay.String())
		if !pause(ctx, delay) {
			return nil
		}
	}
}

// once gets a credential, connects and holds one session.
func (c *Client) once(ctx context.Context) ending {
	if err := c.authenticate(ctx); err != nil {
		return ending{err: err}
	}
	conn, err := c.dial(c.current)
	if err != nil {
		return ending{err: err}
	}
	defer conn.Close()
	c.sessions++
	s := &session{id: c.sessions, config: &c.config, outbox: c.outbox, renewAt: c.renewAt, onBundle: c.keepBundle}
	return s.run(ctx, conn)
}
