package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
)

// VaultServer is a running Vault server in memory, unsealed, with KV version 2
// at secret/, KV version 1 at kv1/ and AppRole login at approle/.
type VaultServer struct {
	// Addr is its address, a URL.
	Addr string
	// Token is the root token.
	Token string

	dir     string
	process *process
}

// StartVault starts a Vault server. ctx bounds the start alone.
func StartVault(ctx context.Context) (*VaultServer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, _, err := stateDir("", "vault")
	if err != nil {
		return nil, err
	}
	s := &VaultServer{Token: "root", dir: dir}
	_, err = retryPorts(func() (struct{}, error) { return struct{}{}, s.start(ctx) })
	if err != nil {
		return nil, fmt.Errorf("start Vault: %w", errors.Join(err, s.Stop()))
	}
	return s, nil
}

// start starts the process on a free port and waits until it is unsealed.
func (s *VaultServer) start(ctx context.Context) error {
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	s.Addr = "http://" + loopback + ":" + ports[0]
	s.process, err = startProcess(ctx, s.dir, "vaultdev", loopback+":"+ports[0])
	if err != nil {
		return err
	}
	return s.process.waitReady(ctx, func(ctx context.Context) error {
		_, err := get(ctx, http.DefaultClient, s.Addr+"/v1/sys/health", nil)
		return err
	})
}

// Pause stops the server from answering while its connections stay open.
func (s *VaultServer) Pause() error { return s.process.pause() }

// Resume ends Pause.
func (s *VaultServer) Resume() error { return s.process.signal(syscall.SIGCONT) }

// PID is the server's process.
func (s *VaultServer) PID() int { return s.process.cmd.Process.Pid }

// Stop kills the server. It may be called twice.
func (s *VaultServer) Stop() error {
	s.process.stop()
	return os.RemoveAll(s.dir)
}
