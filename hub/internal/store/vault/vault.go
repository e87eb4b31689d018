package vault

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"

	"github.com/hashicorp/vault/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

// Config says how to reach Vault.
type Config struct {
	// Endpoint is an http or https URL without user info, query or fragment; a path
	// is put in front of Vault's own.
	Endpoint string
	// Credential is the secret half of the login: a token, a secret ID, a
	// ServiceAccount's token or a JSON Web Token.
	Credential string
	// Login is how to log in; the credential itself is the token when nil.
	Login *Login
	// TLS says how the two ends prove themselves.
	TLS link.TLS
	// Namespace of Vault Enterprise or OpenBao.
	Namespace string
	// KVVersion of every engine, 1 or 2; asked of Vault when zero. When stated, an
	// engine's path is the first segment of a key.
	KVVersion int
}

// Login is a login that gives a token. Either RoleID or Role is set.
type Login struct {
	// Mount is the auth method's path, without auth/.
	Mount string
	// RoleID of an AppRole, whose secret ID the credential is.
	RoleID string
	// Role of a method that takes the credential as a signed token: kubernetes, jwt.
	Role string
}

// Client reads documents from one Vault with one credential.
type Client struct {
	http      *requester
	transport *http.Transport
	session   *session
	mounts    *mounts
	flights   flights // of probes
	hashKey   []byte  // of the versions of KV 1
}

var _ store.Poller = (*Client)(nil)

// New answers a client; it does not talk to Vault yet. Its errors are *store.Error
// with ClassInvalid, CredentialNotFound, CredentialRejected or StoreTLSFailed.
func New(cfg Config) (*Client, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	transport, err := link.NewTransport(cfg.TLS)
	if err != nil {
		return nil, refuse(v1alpha1.ReasonStoreTLSFailed, err.Error())
	}
	client, err := newClient(cfg, transport)
	if err != nil {
		return nil, err
	}
	client.transport = transport
	return client, nil
}

func check(cfg Config) error {
	if err := link.CheckEndpoint(cfg.Endpoint); err != nil {
		return refuse(v1alpha1.ReasonClassInvalid, err.Error())
	}
	if cfg.Credential == "" {
		return refuse(v1alpha1.ReasonCredentialNotFound, "spec.tokenSecret is not set, and Vault needs a credential")
	}
	// It would not survive in a header.
	if strings.ContainsFunc(cfg.Credential, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refuse(v1alpha1.ReasonCredentialRejected, "the credential holds characters that no credential of Vault has")
	}
	return nil
}

func refuse(reason, text string) error {
	return &store.Error{Reason: reason, Op: store.OpOpen, Err: errors.New(text)}
}

func newClient(cfg Config, next http.RoundTripper) (*Client, error) {
	library, err := api.NewClient(&api.Config{
		Address:          strings.TrimRight(cfg.Endpoint, "/"),
		DisableRedirects: true, // one would carry the token to where the class does not point
		HttpClient: &http.Client{
			Transport:     &guard{next: next, namespace: cfg.Namespace},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		// The endpoint was checked: what is left is that the library reads the
		// environment, if only to have it replaced by what is set here.
		return nil, refuse(v1alpha1.ReasonClassInvalid, "a VAULT_ variable in the hub's environment is malformed; the hub needs none of them")
	}
	library.SetHeaders(http.Header{api.RequestHeaderName: {"true"}}) // without VAULT_HEADERS
	library.SetWrappingLookupFunc(func(string, string) string { return "" })
	library.ClearToken()
	to := &requester{logical: library.Logical()}
	return &Client{
		http:    to,
		session: newSession(to, cfg.Login, cfg.Credential),
		mounts:  newMounts(cfg.KVVersion),
		hashKey: []byte(rand.Text()),
	}, nil
}

// Close revokes the token, where the client logged in for it, and closes idle
// connections.
func (c *Client) Close() error {
	err := c.session.end()
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	return err
}

// Fetch reads a document.
func (c *Client) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	doc, err := c.fetch(ctx, key, nil)
	return doc, named(err, "fetch", key)
}

// Poll reads a document if its version is another than last's.
func (c *Client) Poll(ctx context.Context, key policy.Key, last *store.Document) (*store.Document, error) {
	doc, err := c.fetch(ctx, key, last)
	return doc, named(err, "poll", key)
}

// named says of a failure what was being done. The failure of a login is shared by
// many, so it is copied.
func named(err error, op string, key policy.Key) error {
	failure, ok := errors.AsType[*store.Error](err)
	if !ok {
		return err
	}
	return &store.Error{Reason: failure.Reason, Op: op, Key: string(key), RetryAfter: failure.RetryAfter, Err: failure.Err}
}
