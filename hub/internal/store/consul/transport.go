package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	dialTimeout = 5 * time.Second
	// idleConns lets a class's usual number of requests at once keep their
	// connections.
	idleConns = 32
	// maxBody is the largest value in base64, and what Consul writes around it.
	maxBody = store.MaxDocumentBytes/3*4 + 64<<10
	// maxRetryAfter keeps a mistaken header from silencing a class for days.
	maxRetryAfter = time.Hour
)

// checkEndpoint never quotes the endpoint: it may hold what it must not.
func checkEndpoint(endpoint string) error {
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

func newTransport(cfg Config) (*http.Transport, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName}
	if len(cfg.CAPEM) > 0 {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(cfg.CAPEM) {
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

// exchange is what the library does not tell of an answer.
type exchange struct {
	status     int
	consul     bool // the answer carries Consul's index
	retryAfter time.Duration
}

type exchangeKey struct{}

// withExchange lets the guard leave what it sees of the answer.
func withExchange(ctx context.Context) (context.Context, *exchange) {
	met := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, met), met
}

// guard stands between the library and the network: it settles what the library
// would take from the environment, notes what the library drops, and bounds the
// body.
type guard struct {
	next                 http.RoundTripper
	namespace, partition string
}

// RoundTrip passes the request on.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	query := request.URL.Query()
	pin(query, "ns", g.namespace)
	pin(query, "partition", g.partition)
	request.URL.RawQuery = query.Encode()

	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if met, ok := request.Context().Value(exchangeKey{}).(*exchange); ok {
		met.status = response.StatusCode
		met.consul = response.Header.Get("X-Consul-Index") != ""
		met.retryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	return response, nil
}

// pin sets or removes a parameter that the library reads from the environment.
func pin(query url.Values, name, value string) {
	if value == "" {
		query.Del(name)
		return
	}
	query.Set(name, value)
}

// retryAfter reads the header in both of its forms; zero where it says nothing.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
