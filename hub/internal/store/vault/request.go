package vault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/vault/api"

	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// maxBody is the largest document, and what Vault writes around it.
	maxBody = store.MaxDocumentBytes + 64<<10
)

// requester makes requests, one a call.
type requester struct {
	logical *api.Logical
}

// answer is a whole answer of whatever status.
type answer struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

// get reads a path with a token.
func (r *requester) get(ctx context.Context, token, path string) (answer, error) {
	return r.do(ctx, token, func(ctx context.Context) (*api.Response, error) {
		return r.logical.ReadRawWithContext(ctx, path)
	})
}

// put writes JSON to a path; without a token when that is empty.
func (r *requester) put(ctx context.Context, token, path string, body []byte) (answer, error) {
	return r.do(ctx, token, func(ctx context.Context) (*api.Response, error) {
		return r.logical.WriteRawWithContext(ctx, path, body)
	})
}

// do answers what came back whole, an *store.Error where nothing did, or the
// context's error when that ended first.
func (r *requester) do(
	ctx context.Context, token string, send func(context.Context) (*api.Response, error),
) (answer, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	met := &exchange{token: token}
	response, err := send(context.WithValue(bounded, exchangeKey{}, met))
	body, err := readBody(response, err)
	if ctx.Err() != nil {
		return answer{}, ctx.Err()
	}
	if err != nil {
		return answer{}, unanswered(err, met.status)
	}
	return answer{status: met.status, body: body, retryAfter: met.retryAfter}, nil
}

// readBody answers the body of whatever status; err is the library's.
func readBody(response *api.Response, err error) ([]byte, error) {
	if response != nil {
		defer response.Body.Close()
	}
	// That is its word for a status from 400 on, with the body read.
	if _, ok := errors.AsType[*api.ResponseError](err); err != nil && !ok {
		return nil, err
	}
	return io.ReadAll(response.Body)
}

// exchange is what a request and its answer hold beside what the library handles.
type exchange struct {
	token      string
	status     int
	retryAfter time.Duration
}

type exchangeKey struct{}

// guard stands between the library and the network: it settles what the library
// would take from the environment, notes what the library drops, and bounds the
// body.
type guard struct {
	next      http.RoundTripper
	namespace string
}

// RoundTrip passes the request on.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	met, ok := request.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("a request without an exchange")
	}
	request = request.Clone(request.Context())
	pin(request.Header, api.AuthHeaderName, met.token)
	pin(request.Header, api.NamespaceHeaderName, g.namespace)
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	met.status = response.StatusCode
	met.retryAfter = link.RetryAfter(response.Header.Get("Retry-After"), time.Now())
	response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	return response, nil
}

// pin sets or removes a header.
func pin(header http.Header, name, value string) {
	if value == "" {
		header.Del(name)
		return
	}
	header.Set(name, value)
}
