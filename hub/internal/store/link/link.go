// Package link is how a store is reached over HTTP: which endpoints are taken, a
// transport that owes nothing to the environment, and what a failure on the way is
// called. Stores with an HTTP interface use it.
//
// Nothing of an endpoint or of an answer goes into an error.
package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// idleConns lets a class's usual number of requests at once keep their
	// connections.
	idleConns = 32
	// maxRetryAfter keeps a mistaken header from silencing a class for days.
	maxRetryAfter = time.Hour
)

// CheckEndpoint refuses what is no http or https URL, or holds user info, a query
// or a fragment. It never quotes the endpoint: it may hold what it must not.
func CheckEndpoint(endpoint string) error {
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https"):
		return errors.New("the endpoint is not an http or https URL")
	case parsed.User != nil:
		return errors.New("the endpoint holds user info")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return errors.New("the endpoint holds a query or fragment")
	}
	return nil
}

// TLS is how the two ends of a connection prove themselves. Certificates and keys
// are PEM.
type TLS struct {
	// CAPEM is the CA of the endpoint's certificate; the system's roots when empty.
	CAPEM []byte
	// CertPEM is what the client shows, leaf first; nothing when empty.
	CertPEM []byte
	// KeyPEM is the key of CertPEM.
	KeyPEM []byte
	// ServerName is the name in the endpoint's certificate; the endpoint's host when
	// empty.
	ServerName string
}

// config quotes nothing of what it reads in its errors.
func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if len(t.CAPEM) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(t.CAPEM) {
			return nil, errors.New("the CA holds no certificate in PEM")
		}
	}
	if len(t.CertPEM) > 0 || len(t.KeyPEM) > 0 {
		pair, err := tls.X509KeyPair(t.CertPEM, t.KeyPEM)
		if err != nil {
			return nil, errors.New("the client certificate and its key are not PEM, or do not belong together")
		}
		// Shown whatever authorities the server names: it then says what it misses.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c, nil
}

// NewTransport answers a transport of its own, without a proxy.
func NewTransport(t TLS) (*http.Transport, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     90 * time.Second,
	}, nil
}

// RetryAfter reads the header in both of its forms, at most an hour; zero where it
// says nothing.
func RetryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
