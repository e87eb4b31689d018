package hubtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// memory is a network for one hub, within the process: a bubble's clock goes on while
// everybody waits for it.
type memory struct {
	mu       sync.Mutex // guards what follows
	listener *bufconn.Listener
	dials    int
}

// StartInMemory starts a hub that is reached by the options of DialInMemory alone.
func StartInMemory(tb testing.TB, settings Settings) *Hub {
	tb.Helper()
	return start(tb, &Hub{settings: settings, memory: &memory{}})
}

// DialInMemory has an agent reach a hub of StartInMemory.
func (h *Hub) DialInMemory() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.memory.dial(ctx) })
}

// Dials is how often a connection to a hub of StartInMemory was tried.
func (h *Hub) Dials() int {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	return h.memory.dials
}

func (m *memory) listen() net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listener = bufconn.Listen(64 << 10)
	return named{m.listener}
}

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	m.dials++
	listener := m.listener
	m.mu.Unlock()
	return listener.DialContext(ctx) // fails at once after the listener's end
}

// named is a listener that has the address of one on loopback, which no resolver is
// asked for.
type named struct{ net.Listener }

func (named) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
