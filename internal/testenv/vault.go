package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"syscall"
)

// VaultServer is a running Vault server in memory, unsealed, with KV version 2
// at secret/, KV version 1 at kv1/ and the logins approle/, kubernetes/ and jwt/. An
// engine of type leased, which can be mounted, answers every read with a lease.
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

// ConnectVault is a server that somebody else runs, by its address and its root
// token. It cannot be paused, unsealed or stopped.
func ConnectVault(addr, token string) *VaultServer {
	return &VaultServer{Addr: addr, Token: token}
}

// start starts the process on a free port and waits until it is unsealed, and serves
// secret/: an engine of version 2 refuses everything for a moment after it was made.
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
		if _, err := get(ctx, http.DefaultClient, s.Addr+"/v1/sys/health", nil); err != nil {
			return err
		}
		return s.Call(ctx, http.MethodGet, "secret/config", nil, nil)
	})
}

// Call makes a request with the root token: path is below /v1/, body is sent as
// JSON unless nil, and the answer's data, or auth for a login, is decoded into answer
// unless nil.
func (s *VaultServer) Call(ctx context.Context, method, path string, body, answer any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	header := http.Header{"X-Vault-Token": {s.Token}}
	said, err := call(ctx, http.DefaultClient, method, s.Addr+"/v1/"+path, header, bytes.NewReader(text))
	if err != nil || answer == nil {
		return err
	}
	var envelope struct{ Data, Auth json.RawMessage }
	if err := json.Unmarshal(said, &envelope); err != nil {
		return err
	}
	if string(envelope.Data) == "null" {
		return json.Unmarshal(envelope.Auth, answer)
	}
	return json.Unmarshal(envelope.Data, answer)
}

// Seal makes the server refuse everything until Unseal.
func (s *VaultServer) Seal(ctx context.Context) error {
	return s.Call(ctx, http.MethodPut, "sys/seal", nil, nil)
}

// Unseal ends Seal.
func (s *VaultServer) Unseal(ctx context.Context) error {
	log, err := os.ReadFile(s.process.logFile)
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)^unseal key (\S+)$`).FindSubmatch(log)
	if found == nil {
		return errors.New("the log holds no unseal key")
	}
	return s.Call(ctx, http.MethodPut, "sys/unseal", map[string]string{"key": string(found[1])}, nil)
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
