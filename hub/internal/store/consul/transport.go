package consul

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

const (
	// maxBody is the largest value in base64, or a batch of as much, and what Consul
	// writes around it.
	maxBody = store.MaxDocumentBytes/3*4 + 128<<10
	// keepBytes of an unread answer are taken in, so that its connection can be used
	// again.
	keepBytes = 64 << 10
)

// exchange is what the library does not tell of an answer.
type exchange struct {
	status     int
	indexed    bool // the answer carries Consul's index
	led        bool // the answer says of Consul's leader; one to a transaction has no index
	retryAfter time.Duration
	unread     bool // asked for: take an empty list for the body
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
	// All requests are reads, also the PUT of a transaction: one whose connection was
	// closed as idle meanwhile is sent again. The empty header itself is not sent.
	request.Header["Idempotency-Key"] = []string{}

	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if met, ok := request.Context().Value(exchangeKey{}).(*exchange); ok {
		met.status = response.StatusCode
		met.indexed = response.Header.Get("X-Consul-Index") != ""
		met.led = response.Header.Get("X-Consul-Knownleader") != ""
		met.retryAfter = link.RetryAfter(response.Header.Get("Retry-After"), time.Now())
		if met.unread && response.StatusCode == http.StatusOK {
			_, _ = io.CopyN(io.Discard, response.Body, keepBytes)
			_ = response.Body.Close()
			response.Body = io.NopCloser(strings.NewReader("[]"))
		}
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
