package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Namespace is a network of its own, in which programs run that meet nothing of the
// machine's network but what is let in. It goes with this process, in whatever way that
// ends, and everything in it too.
type Namespace struct {
	file *os.File
	work chan func()
}

// NewNamespace makes one, with a loopback. It fails where the machine, or who runs this,
// may not: that takes root on Linux, and the programs ip and nsenter.
func NewNamespace(ctx context.Context) (*Namespace, error) {
	n := &Namespace{work: make(chan func())}
	made := make(chan error)
	go n.live(made)
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	if err := n.IP(ctx, "link", "set", "lo", "up"); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// live holds the thread that is in the namespace, and runs what is to run there.
func (n *Namespace) live(made chan<- error) {
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	err := syscall.Unshare(syscall.CLONE_NEWNET)
	if err == nil {
		n.file, err = os.Open("/proc/thread-self/ns/net")
	}
	made <- err
	if err != nil {
		return
	}
	for do := range n.work {
		do()
	}
}

// Close lets the namespace go, once nothing runs in it any more.
func (n *Namespace) Close() {
	close(n.work)
	_ = n.file.Close() // it was only read
}

// path is the namespace as a file.
func (n *Namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Enter is the command line that runs a program in the namespace.
func (n *Namespace) Enter(program string, args ...string) (path string, all []string) {
	return "nsenter", append([]string{"--net=" + n.path(), "--", program}, args...)
}

// IP runs ip in the namespace.
func (n *Namespace) IP(ctx context.Context, args ...string) error {
	path, all := n.Enter("ip", args...)
	out, err := exec.CommandContext(ctx, path, all...).CombinedOutput() //nolint:gosec // G204: the words of tests
	if err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

// Dial connects to an address as the namespace sees it.
func (n *Namespace) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	n.do(func() { conn, err = new(net.Dialer).DialContext(ctx, network, address) })
	return conn, err
}

// LetIn leads an address of the namespace's loopback to the same one of the machine's.
func (n *Namespace) LetIn(ctx context.Context, address string) (*Proxy, error) {
	var listener net.Listener
	var err error
	n.do(func() { listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address) })
	if err != nil {
		return nil, err
	}
	p := proxyOn(ctx, listener)
	p.Route(address)
	return p, nil
}

// do runs something on the thread that is in the namespace: what it opens is there.
func (n *Namespace) do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// Cable connects two namespaces. Its ends are called cable and have the addresses
// CableFrom and CableTo.
func Cable(ctx context.Context, from, to *Namespace) error {
	return errors.Join(
		from.IP(ctx, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", to.path()),
		from.IP(ctx, "address", "add", CableFrom+"/30", "dev", "cable"), from.IP(ctx, "link", "set", "cable", "up"),
		to.IP(ctx, "address", "add", CableTo+"/30", "dev", "cable"), to.IP(ctx, "link", "set", "cable", "up"),
	)
}

const (
	// CableFrom is the address of a cable's first end, of a block for documentation.
	CableFrom = "192.0.2.1"
	// CableTo is the address of its other end.
	CableTo = "192.0.2.2"
)
