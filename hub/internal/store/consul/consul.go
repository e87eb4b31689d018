package consul

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// fetchTimeout bounds a read that does not block on purpose.
const fetchTimeout = 10 * time.Second

// Config says how to reach Consul.
type Config struct {
	// Endpoint is an http or https URL without user info, query or fragment; a path
	// is put in front of Consul's own.
	Endpoint string
	// Token is the ACL token; anonymous when empty.
	Token string
	// CAPEM is the CA of the endpoint's certificate in PEM; the system's roots when
	// empty.
	CAPEM []byte
	// ServerName is the name in the certificate; the endpoint's host when empty.
	ServerName string
	// Datacenter to read from; the agent's own when empty.
	Datacenter string
	// Namespace of Consul Enterprise.
	Namespace string
	// Partition of Consul Enterprise.
	Partition string
}

// Client reads documents from one Consul with one token.
type Client struct {
	kv        *api.KV
	transport *http.Transport
	watches   chan struct{} // one place for each watch
}

var _ store.Watcher = (*Client)(nil)

// New answers a client; it does not talk to Consul yet. Its errors are
// *store.Error with ClassInvalid or StoreTLSFailed.
func New(cfg Config) (*Client, error) {
	if err := checkEndpoint(cfg.Endpoint); err != nil {
		return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: "open", Err: err}
	}
	transport, err := newTransport(cfg)
	if err != nil {
		return nil, &store.Error{Reason: v1alpha1.ReasonStoreTLSFailed, Op: "open", Err: err}
	}
	client, err := newClient(cfg, transport)
	if err != nil {
		return nil, err
	}
	client.transport = transport
	return client, nil
}

func newClient(cfg Config, next http.RoundTripper) (*Client, error) {
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
		return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: "open", Err: errors.New("the endpoint cannot be used")}
	}
	return &Client{kv: client.KV(), watches: make(chan struct{}, maxWatches)}, nil
}

// Close closes idle connections.
func (c *Client) Close() error {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	return nil
}

// Fetch reads a document.
func (c *Client) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	got := c.get(ctx, "fetch", key, api.QueryOptions{}, fetchTimeout)
	return got.doc, got.err
}

// reading is one answer of Consul.
type reading struct {
	doc   *store.Document
	index uint64 // of Consul, for the next blocking query; zero after a failure
	err   error
}

// get makes one request that ends within the timeout.
func (c *Client) get(ctx context.Context, op string, key policy.Key, query api.QueryOptions, timeout time.Duration) reading {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bounded, met := withExchange(bounded)
	pair, meta, err := c.kv.Get(string(key), query.WithContext(bounded))
	if ctx.Err() != nil {
		return reading{err: ctx.Err()}
	}
	if err == nil {
		err = checkAnswer(pair, key, met)
	}
	if err != nil {
		failure := classify(err, met)
		failure.Op, failure.Key = op, string(key)
		// An absent document has an index to wait from, too.
		if meta != nil && store.IsAbsent(failure) {
			return reading{index: meta.LastIndex, err: failure}
		}
		return reading{err: failure}
	}
	doc := &store.Document{Version: strconv.FormatUint(pair.ModifyIndex, 10), Text: pair.Value}
	return reading{doc: doc, index: meta.LastIndex}
}

// Causes that checkAnswer tells apart.
var (
	errAbsent    = errors.New("absent or not readable by this token")
	errNotConsul = errors.New("the answer is not Consul's")
	errTooLarge  = errors.New("the value is larger than 4 MiB")
)

// checkAnswer says what is wrong with an answer that is no failure to the
// library.
func checkAnswer(pair *api.KVPair, key policy.Key, met *exchange) error {
	switch {
	case !met.consul:
		return errNotConsul
	case pair == nil && met.status == http.StatusNotFound:
		return errAbsent
	case pair == nil || pair.Key != string(key):
		return errNotConsul
	case len(pair.Value) > store.MaxDocumentBytes:
		return errTooLarge
	}
	return nil
}
