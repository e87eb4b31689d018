package syncclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
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
	// NoSession is told why none opens, in words for people and as a reason that never
	// changes its name, when that is another than before.
	NoSession(why, reason string)
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

// Client holds sessions with the hub, one after the other. A planned change of sessions
// leaves no gap: the older one serves until the next has taken over.
type Client struct {
	config Config
	outbox *outbox
	turn   turn
	// enrolled is set once there was a certificate to connect with.
	enrolled atomic.Bool

	// What follows belongs to Run's goroutine.

	sessions uint64
	// serving is the session that is held; nil for none.
	serving *session
	// holders are the goroutines that hold sessions.
	holders sync.WaitGroup
	current *credential.Credential
	// rejected says that the hub did not accept current.
	rejected bool
	// renewAt is when to enrol again; later than current's RenewAt after an
	// attempt that failed.
	renewAt time.Time
	// handshake is how the last one of the latest connection ended; nil before.
	handshake *atomic.Pointer[error]
	// told is the trouble that was told since the hub's last welcome.
	told trouble
}

// New returns a Client; call Run to connect it.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Backoff = config.Backoff.withDefaults()
	return &Client{config: config, outbox: newOutbox(), turn: turn{receiver: config.Receiver}}, nil
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
	defer c.holders.Wait()
	for {
		end := c.step(ctx)
		if ctx.Err() != nil {
			return nil // to be told to end is no failure
		}
		c.rejected = c.rejected || rejectsCertificate(end.err)
		if c.serving != nil && c.serving.over() {
			c.serving = nil
		}
		delay := again.after(end)
		c.report(log, end, delay)
		if !pause(ctx, delay) {
			return nil
		}
	}
}

// step opens a session, lets the one before it go, and holds the new one until that is
// over or another is wanted. Where none opens, the one before it stays.
func (c *Client) step(ctx context.Context) ending {
	next, err := c.open(ctx)
	if err != nil {
		return ending{err: err}
	}
	if c.serving != nil {
		c.serving.leave()
	}
	c.serving = next
	return c.hold(ctx, next)
}

// open gets a credential, connects, and returns once the hub has the whole inventory.
func (c *Client) open(ctx context.Context) (*session, error) {
	if err := c.authenticate(ctx); err != nil {
		return nil, err
	}
	conn, err := c.dial(c.current)
	if err != nil {
		return nil, err
	}
	c.sessions++
	s := newSession(c.sessions, c, conn)
	own, welcome, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	c.welcomed(ctx, welcome)
	c.holders.Go(func() { s.serve(own) })
	select {
	case <-s.established:
		return s, nil
	case <-s.done:
		return nil, s.err
	}
}

// welcomed takes what the Welcome says.
func (c *Client) welcomed(ctx context.Context, welcome *fleetv1.Welcome) {
	log := logr.FromContextOrDiscard(ctx)
	c.told = trouble{}
	roots, err := credential.ParseBundle(welcome.GetTrustBundleDer())
	if err != nil {
		log.Info("The hub's trust bundle cannot be read", "cause", err.Error())
	} else {
		c.keepBundle(ctx, roots)
	}
	log.Info("Session established", "replica", welcome.GetHub(), "epoch", welcome.GetEpoch(),
		"protocol", welcome.GetProtocolVersion(), "clockAhead", clockAhead(welcome).String())
}

// hold waits until the session is over, the hub asks for another, or there is a new
// certificate to show.
func (c *Client) hold(ctx context.Context, s *session) ending {
	for {
		// A renewal that is overdue is not tried in a loop.
		renew := time.NewTimer(max(time.Until(c.renewAt), c.config.Backoff.Min))
		select {
		case <-s.done:
			renew.Stop()
			return ending{err: s.err, established: true, lasted: time.Since(s.welcomedAt)}
		case <-s.drained:
			renew.Stop()
			return ending{err: errDrained, established: true, planned: true, lasted: time.Since(s.welcomedAt)}
		case <-renew.C:
			before := c.current
			if err := c.authenticate(ctx); err != nil {
				return ending{err: err}
			}
			if c.current != before {
				return ending{err: errRenewal, established: true, planned: true, lasted: time.Since(s.welcomedAt)}
			}
		}
	}
}
