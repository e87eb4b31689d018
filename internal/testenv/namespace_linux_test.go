package testenv_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"dynamic-config.rs/fleet/internal/testenv"
)

// A namespace meets what is let in, and nothing else of the machine's loopback.
func TestNamespace_MeetsWhatIsLetIn(t *testing.T) {
	n, err := testenv.NewNamespace(t.Context())
	if err != nil {
		t.Logf("no network namespaces on this machine: %v", err)
		return
	}
	defer n.Close()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	if _, err := n.Dial(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial what was not let in: %v", err)
	}

	proxy, err := n.LetIn(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Stop()
	go func() { // one connection
		if c, err := listener.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	conn, err := n.Dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if said, err := io.ReadAll(conn); string(said) != "hello" || err != nil {
		t.Errorf("heard %q, %v", said, err)
	}
}
