package hub

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/netutil"

	"dynamic-config.rs/fleet/hub/internal/limit"
)

const (
	// maxConnections at once: twice the 2,000 spokes of a replica, each of which may
	// open its next session beside the present one. Further ones wait to be accepted.
	maxConnections = 4096
	// handshakesPerSecond and handshakeBurst bound what TLS costs the hub for one
	// source: a fifth of a core. A burst takes all spokes of a replica behind one
	// address when they come back.
	handshakesPerSecond, handshakeBurst = 200, 2000
)

// bounded bounds the connections of a listener.
func bounded(listener net.Listener) net.Listener {
	return netutil.LimitListener(listener, maxConnections)
}

// handshakes refuses sources that begin more of them than they may. The refusal costs
// nothing but their hello, and nobody waits for it.
type handshakes struct {
	sources *limit.Buckets
	now     func() time.Time
}

func newHandshakes() *handshakes {
	return &handshakes{sources: &limit.Buckets{Limit: handshakesPerSecond, Burst: handshakeBurst}, now: time.Now}
}

// admit is a tls.Config's GetConfigForClient that changes nothing.
func (h *handshakes) admit(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	source := limit.Source(hello.Conn.RemoteAddr().String())
	if wait := limit.Take(h.sources.Get(source), h.now()); wait > 0 {
		return nil, fmt.Errorf("too many handshakes of %s", source)
	}
	return nil, nil
}
