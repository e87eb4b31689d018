package syncclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/spoke/internal/credential"
)

const (
	// maxReceiveBytes is the hub's limit of a message, 2 MiB, with room to spare:
	// a Deliver holds at most 1,000,000 bytes of content.
	maxReceiveBytes = 4 << 20
	// keepaliveTime is how long a quiet connection is trusted; the hub allows
	// pings from 10 s.
	keepaliveTime = 30 * time.Second
	// keepaliveTimeout is how long the answer to a ping may take.
	keepaliveTimeout = 20 * time.Second
)

// dial makes a connection to the hub; nothing is sent yet. Without a credential,
// or with one that is not valid, no client certificate is shown.
func (c *Client) dial(current *credential.Credential) (*grpc.ClientConn, error) {
	config, err := c.tlsConfig(current)
	if err != nil {
		return nil, because(identity.ReasonHubCAUnreadable, err)
	}
	c.handshake = new(atomic.Pointer[error])
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(handshakes{credentials.NewTLS(config), c.handshake}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceiveBytes)),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
	}, c.config.DialOptions...)
	conn, err := grpc.NewClient(c.config.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return conn, nil
}

// ReadRoots reads the hub's roots from a file in PEM; it fails when there is none.
func ReadRoots(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots, err := credential.ParsePEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return roots, nil
}

// tlsConfig pins the hub: the roots of the CA file and those the hub named since.
// The file stays valid so that a hub with a wholly new CA can be reached again.
func (c *Client) tlsConfig(current *credential.Credential) (*tls.Config, error) {
	pinned, err := ReadRoots(c.config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("hub CA: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: c.config.ServerName, RootCAs: x509.NewCertPool()}
	for _, root := range pinned {
		config.RootCAs.AddCert(root)
	}
	if current == nil {
		return config, nil
	}
	for _, root := range current.TrustBundle {
		config.RootCAs.AddCert(root)
	}
	if current.ValidAt(time.Now()) {
		config.Certificates = []tls.Certificate{current.TLS()}
	}
	return config, nil
}
