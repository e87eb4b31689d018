package hub

import (
	"context"
	"net"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
)

const (
	// maxConnections at once: twice the 2,000 spokes of a replica, each of which may
	// open its next session beside the present one. Further ones wait to be accepted.
	maxConnections = 4096
	// connectionRate (per second) and connectionBurst bound what TLS handshakes cost: a
	// fifth of a core. A burst takes the spokes of a replica that comes back.
	connectionRate, connectionBurst = 200, 2000
)

// pacedListener accepts connections no faster than a rate. Those that wait are the
// kernel's.
type pacedListener struct {
	net.Listener
	wait func() error
}

// paced bounds the connections of a listener, at once and by rate, until the context ends.
func paced(ctx context.Context, listener net.Listener, limiter *rate.Limiter) net.Listener {
	return pacedListener{netutil.LimitListener(listener, maxConnections), func() error { return limiter.Wait(ctx) }}
}

// Accept waits for a connection, and then for its turn.
func (l pacedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := l.wait(); err != nil {
		_ = conn.Close() // the error that counts is why it is not served
		return nil, err
	}
	return conn, nil
}
