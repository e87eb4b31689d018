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

// NewTransport answers a transport of its own, without a proxy. It trusts the CA in
// PEM, or the system's roots when caPEM is empty, for serverName, or the endpoint's
// host when that is empty.
func NewTransport(caPEM []byte, serverName string) (*http.Transport, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if len(caPEM) > 0 {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(caPEM) {
			return nil, errors.New("the CA holds no certificate in PEM")
		}
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:     tlsConfig,
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
