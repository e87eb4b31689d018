package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Proxy leads TCP connections to servers of loopback, as a load balancer does, and
// fails on demand as networks do.
type Proxy struct {
	// Address it listens on, host:port.
	Address string

	listener net.Listener
	stop     context.CancelFunc
	group    sync.WaitGroup // every goroutine, ended by Stop

	mu     sync.Mutex // guards what follows
	route  []string
	turn   int
	delay  time.Duration
	links  map[*link]struct{}
	silent map[string]chan struct{} // a backend's channel is closed when it is heard again
}

// link is one connection through the proxy.
type link struct {
	backend        string
	client, server net.Conn
	cut            chan struct{} // closed by the first end
	once           sync.Once
}

func (l *link) end() {
	l.once.Do(func() {
		close(l.cut)
		_ = errors.Join(l.client.Close(), l.server.Close()) // ends what reads and writes there
	})
}

// StartProxy starts a proxy that leads nowhere until Route says where.
func StartProxy(ctx context.Context) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	return proxyOn(ctx, listener), nil
}

// proxyOn is a proxy that takes the connections of a listener.
func proxyOn(ctx context.Context, listener net.Listener) *Proxy {
	p := &Proxy{
		Address: listener.Addr().String(), listener: listener,
		links: map[*link]struct{}{}, silent: map[string]chan struct{}{},
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	p.group.Go(func() { p.accept(running) })
	return p
}

// Stop ends the proxy and every connection through it.
func (p *Proxy) Stop() {
	p.stop()
	_ = p.listener.Close() // ends accept
	p.group.Wait()
}

// Route leads new connections to these backends in turn; one that nobody listens on is
// passed over. Connections that are open stay.
func (p *Proxy) Route(backends ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.route = slices.Clone(backends)
}

// Delay holds up whatever passes, either way, from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes the connections to a backend, of both sides.
func (p *Proxy) Cut(backend string) {
	for _, l := range p.open(backend) {
		l.end()
	}
}

// Silence lets nothing pass to or from a backend while on: its connections stay open
// and neither side learns anything, as when a cable is pulled. What waited passes
// afterwards.
func (p *Proxy) Silence(backend string, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard, silent := p.silent[backend]
	switch {
	case on && !silent:
		p.silent[backend] = make(chan struct{})
	case !on && silent:
		delete(p.silent, backend)
		close(heard)
	}
}

// Open is the number of connections to a backend.
func (p *Proxy) Open(backend string) int { return len(p.open(backend)) }

// open are the connections to a backend.
func (p *Proxy) open(backend string) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var links []*link
	for l := range p.links {
		if l.backend == backend {
			links = append(links, l)
		}
	}
	return links
}

// accept takes connections until the proxy stops.
func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		backends := p.backends()
		p.group.Go(func() { p.forward(ctx, client, backends) })
	}
}

// forward serves one connection.
func (p *Proxy) forward(ctx context.Context, client net.Conn, backends []string) {
	l := &link{client: client, cut: make(chan struct{})}
	for _, backend := range backends {
		server, err := new(net.Dialer).DialContext(ctx, "tcp", backend)
		if err == nil {
			l.backend, l.server = backend, server
			break
		}
	}
	if l.server == nil {
		_ = client.Close() // nobody to lead it to
		return
	}
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	forget := context.AfterFunc(ctx, l.end)
	defer forget()
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(l, l.server, l.client) })
	pumps.Go(func() { p.pump(l, l.client, l.server) })
	pumps.Wait()
	l.end()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// backends are those to try for the next connection, in order.
func (p *Proxy) backends() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.route) == 0 {
		return nil
	}
	first := p.turn % len(p.route)
	p.turn++
	return append(slices.Clone(p.route[first:]), p.route[:first]...)
}

// pump moves bytes one way until that way ends.
func (p *Proxy) pump(l *link, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(l) {
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil {
			l.end()
			return
		}
		if errors.Is(err, io.EOF) {
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // the other way goes on
			}
			return
		}
		if err != nil {
			l.end()
			return
		}
	}
}

// pass waits until what was read may go on; false when the connection ended first.
func (p *Proxy) pass(l *link) bool {
	p.mu.Lock()
	delay, heard := p.delay, p.silent[l.backend]
	p.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.cut:
			return false
		}
	}
	if heard != nil {
		select {
		case <-heard:
		case <-l.cut:
			return false
		}
	}
	return true
}
