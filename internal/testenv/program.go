package testenv

import (
	"context"
	"os"
	"syscall"
)

// Program is one of the product's own programs, running as a process of its own.
type Program struct {
	process *process
}

// StartProgram starts a program. Its output is appended to <dir>/<name>.log, so that
// one that is started again goes on in the same file. It ends with this process.
func StartProgram(ctx context.Context, dir, name, path string, args ...string) (*Program, error) {
	p, err := startBinary(ctx, dir, name, path, args...)
	if err != nil {
		return nil, err
	}
	return &Program{process: p}, nil
}

// RetryPorts calls start again when a program ended because somebody took one of its
// ports between their being found free and its listening there.
func RetryPorts(start func() error) error {
	_, err := retryPorts(func() (struct{}, error) { return struct{}{}, start() })
	return err
}

// WaitReady asks probe until it succeeds; it fails when the program or ctx ends.
func (p *Program) WaitReady(ctx context.Context, probe func(context.Context) error) error {
	return p.process.waitReady(ctx, probe)
}

// Kill ends the program as kill -9 does and waits for its end.
func (p *Program) Kill() { p.process.stop() }

// Terminate asks the program to end and waits until it has, or ctx does.
func (p *Program) Terminate(ctx context.Context) error {
	if err := p.process.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.process.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Exited is closed when the program has ended.
func (p *Program) Exited() <-chan struct{} { return p.process.exited }

// PID is the program's process.
func (p *Program) PID() int { return p.process.cmd.Process.Pid }

// Log is everything the program wrote, runs before this one included.
func (p *Program) Log() ([]byte, error) { return os.ReadFile(p.process.logFile) }
