package testenv_test

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/internal/testenv"
)

// echo listens on loopback and answers every line with its name and the line.
func echo(t *testing.T, name string) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := conn.Write([]byte(name + " " + lines.Text() + "\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// caller is a connection through a proxy.
type caller struct {
	net.Conn
	lines chan string // closed at the end of the connection
}

func call(t *testing.T, p *testenv.Proxy) *caller {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &caller{conn, make(chan string, 16)}
	go func() { // ends with the connection
		defer close(c.lines)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	return c
}

func (c *caller) say(t *testing.T, line string) {
	t.Helper()
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

func (c *caller) hears(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-c.lines:
		if got != want {
			t.Fatalf("hears %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("hears nothing, want %q", want)
	}
}

func TestProxy(t *testing.T) {
	a, b := echo(t, "a"), echo(t, "b")
	p, err := testenv.StartProxy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	call(t, p).hears(t, "") // it leads nowhere yet

	p.Route(a, b)
	first, second := call(t, p), call(t, p)
	for i, c := range []*caller{first, second} {
		c.say(t, "hello")
		c.hears(t, []string{"a hello", "b hello"}[i])
	}
	p.Route("127.0.0.1:1", b)
	passedOver := call(t, p)
	passedOver.say(t, "hello")
	passedOver.hears(t, "b hello")
	if p.Open(a) != 1 || p.Open(b) != 2 {
		t.Errorf("%d and %d connections are open", p.Open(a), p.Open(b))
	}

	p.Silence(a, true)
	first.say(t, "anybody")
	second.say(t, "still here") // the other backend is not concerned
	second.hears(t, "b still here")
	select {
	case line, open := <-first.lines:
		t.Errorf("hears %q, open %v", line, open)
	default:
	}
	p.Silence(a, false)
	first.hears(t, "a anybody")

	p.Delay(time.Millisecond)
	first.say(t, "slowly")
	first.hears(t, "a slowly")

	p.Silence(b, true)
	p.Cut(b) // also of a connection that is silent
	second.hears(t, "")
	gomega.NewWithT(t).Eventually(func() int { return p.Open(b) }, "30s").Should(gomega.BeZero())
	first.say(t, "still here")
	first.hears(t, "a still here")
}
