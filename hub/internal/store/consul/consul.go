package consul

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul/mux"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

// maxConns bounds the connections of a client, whatever it is asked for: what package
// mux has under way, and a few that are about to close.
const maxConns = 32

// Config says how to reach Consul.
type Config struct {
	// Endpoint is an http or https URL without user info, query or fragment; a path
	// is put in front of Consul's own.
	Endpoint string
	// Token is the ACL token; anonymous when empty.
	Token string
	// TLS says how the two ends prove themselves.
	TLS link.TLS
	// Datacenter to read from; the agent's own when empty.
	Datacenter string
	// Namespace of Consul Enterprise.
	Namespace string
	// Partition of Consul Enterprise.
	Partition string
}

// Client reads documents from one Consul with one token.
type Client struct {
	mux       *mux.Mux
	transport *http.Transport
	requests  *requests
	hasToken  bool
}

var (
	_ store.Watcher     = (*Client)(nil)
	_ store.Multiplexer = (*Client)(nil)
)

// New answers a client; it does not talk to Consul yet. Its errors are
// *store.Error with ClassInvalid or StoreTLSFailed.
func New(cfg Config) (*Client, error) {
	if err := link.CheckEndpoint(cfg.Endpoint); err != nil {
		return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: store.OpOpen, Err: err}
	}
	transport, err := link.NewTransport(cfg.TLS)
	if err != nil {
		return nil, &store.Error{Reason: v1alpha1.ReasonStoreTLSFailed, Op: store.OpOpen, Err: err}
	}
	transport.MaxConnsPerHost = maxConns
	client, err := newClient(cfg, transport)
	if err != nil {
		return nil, err
	}
	client.transport = transport
	return client, nil
}

func newClient(cfg Config, next http.RoundTripper) (*Client, error) {
	library, err := newLibrary(cfg, next)
	if err != nil {
		return nil, err
	}
	requests := &requests{client: library, namespace: cfg.Namespace, partition: cfg.Partition}
	return &Client{mux: mux.New(requests, open{}), requests: requests, hasToken: cfg.Token != ""}, nil
}

// newLibrary answers the library's client, without what it would take from the
// environment.
func newLibrary(cfg Config, next http.RoundTripper) (*api.Client, error) {
	client, err := api.NewClient(&api.Config{
		Address:    strings.TrimRight(cfg.Endpoint, "/"),
		Scheme:     "http", // the address's own scheme decides; empty would ask CONSUL_HTTP_SSL
		Datacenter: cfg.Datacenter,
		Token:      cfg.Token,
		// An empty file, so that neither CONSUL_HTTP_TOKEN nor CONSUL_HTTP_TOKEN_FILE
		// replaces the token.
		TokenFile: os.DevNull,
		HttpClient: &http.Client{
			Transport: &guard{next: next, namespace: cfg.Namespace, partition: cfg.Partition},
			// A redirect would carry the token to where the class does not point.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: store.OpOpen, Err: errors.New("the endpoint cannot be used")}
	}
	return client, nil
}

// open is the gate before Through.
type open struct{}

func (open) Admit(context.Context) (store.Done, error) { return func(error) {}, nil }
func (open) Enter(context.Context) (store.Done, error) { return func(error) {}, nil }

// Through makes every request pass the gate.
func (c *Client) Through(gate store.Gate) { c.mux.Through(gate) }

// Close ends what is under way and closes idle connections.
func (c *Client) Close() error {
	c.mux.Close()
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	return nil
}

// Fetch reads a document.
func (c *Client) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	got := c.mux.Fetch(ctx, key)
	return got.Doc, about("fetch", key, got.Err)
}

// Watch blocks until the document's version is another than after. It answers
// store.ErrNotWatched where the token may not list keys and other documents hold all
// the places for queries of their own.
func (c *Client) Watch(ctx context.Context, key policy.Key, after string) (*store.Document, error) {
	got := c.mux.Watch(ctx, key, after)
	return got.Doc, about("watch", key, got.Err)
}

// about says in an error what was done to which key.
func about(op string, key policy.Key, err error) error {
	failure, ok := errors.AsType[*store.Error](err)
	if !ok {
		return err
	}
	own := *failure // one error may be the answer for many keys
	own.Op, own.Key = op, string(key)
	return &own
}
