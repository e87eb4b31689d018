package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// loopback is the only address a server listens on.
const loopback = "127.0.0.1"

// FreePorts finds n different ports of loopback that nobody listens on.
func FreePorts(ctx context.Context, n int) (ports []string, err error) {
	for range n {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// All stay open until all are found: so they differ.
		defer func() { err = errors.Join(err, listener.Close()) }()
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("find a free port: got %v", listener.Addr())
		}
		ports = append(ports, strconv.Itoa(address.Port))
	}
	return ports, nil
}

// get asks url and returns the body of an answer 200.
func get(ctx context.Context, client *http.Client, url string, header http.Header) ([]byte, error) {
	return call(ctx, client, http.MethodGet, url, header, nil)
}

// call sends one request and returns the body of an answer 200, or nothing for 204.
func call(ctx context.Context, client *http.Client, method, url string, header http.Header, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent {
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	}
	return text, nil
}

// randomName is a name that no other object has.
func randomName() string { return strings.ToLower(rand.Text()) }
