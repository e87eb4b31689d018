package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"dynamic-config.rs/fleet/internal/testbin"
)

// probeEvery is how often a server that starts is asked whether it is ready.
const probeEvery = 50 * time.Millisecond

// pauseTimeout bounds how long a stopped process may go on.
const pauseTimeout = 10 * time.Second

// process is a running server.
type process struct {
	name    string
	cmd     *exec.Cmd
	logFile string
	exited  chan struct{} // closed when the process has ended
}

// startProcess starts a binary of testbin; see startBinary.
func startProcess(ctx context.Context, dir, name string, args ...string) (*process, error) {
	path, err := testbin.Path(name)
	if err != nil {
		return nil, err
	}
	return startBinary(ctx, dir, name, path, args...)
}

// startBinary starts a program. Its output is appended to <dir>/<name>.log. It
// lives until stop, or until this process ends in whatever way.
func startBinary(ctx context.Context, dir, name, path string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// The caller's context bounds the start, not the program's life.
	//nolint:gosec // G204: path is a binary of testbin or the product's own
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = dieWithParent()
	p := &process{name: name, cmd: cmd, logFile: log.Name(), exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.supervise(started, log)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// supervise starts the command and stays with it until it ends. The kernel
// kills a child when the thread that started it ends, not the process, so the
// goroutine keeps that thread for as long as the child lives.
func (p *process) supervise(started chan<- error, log *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// How it ended is of interest only before it was ready; the log tells then.
	_ = p.cmd.Wait()
	close(p.exited)
}

// waitReady asks probe until it succeeds, the process ends, or ctx does.
func (p *process) waitReady(ctx context.Context, probe func(context.Context) error) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return &exitError{name: p.name, tail: p.tail()}
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; it last answered: %w\n%s", p.name, ctx.Err(), err, p.tail())
		case <-tick.C:
		}
	}
}

// stop kills the process and waits for its end. What it kept is thrown away, so
// there is nothing to wait for in a graceful end. It may be called twice.
func (p *process) stop() {
	if p == nil {
		return
	}
	// The only error is that it has ended already.
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// signal sends a signal to a process that runs.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// pause stops a process without ending it, and returns when all of it has stopped.
func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	deadline := time.NewTimer(pauseTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		stopped, err := threadsStopped(p.cmd.Process.Pid)
		if stopped || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("%s does not stop", p.name)
		}
	}
}

// tail returns the last lines of the log.
func (p *process) tail() string {
	const lines = 20
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// exitError says that a server ended before it was ready.
type exitError struct{ name, tail string }

// Error holds the last lines the server wrote.
func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended before it was ready:\n%s", e.name, e.tail)
}

// retryPorts calls start again when a server ended because somebody took a port
// between our finding it free and the server's listening on it.
func retryPorts[T any](start func() (T, error)) (T, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		server, err := start()
		exit, ended := errors.AsType[*exitError](err)
		if attempt < attempts && ended && strings.Contains(exit.tail, "address already in use") {
			continue
		}
		return server, err
	}
}
