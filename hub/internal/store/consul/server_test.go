package consul_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulServer is a Consul agent with ACLs that denies what no token allows.
type consulServer struct {
	Addr  string
	Token string
}

// startConsul starts an agent that ends with the test.
func startConsul(t *testing.T) *consulServer {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(home, ".cache/dynamic-config-fleet/testbin/consul-v1.14.11/consul")
	server := &consulServer{Addr: fmt.Sprintf("127.0.0.1:%d", freePort(t)), Token: "root-of-the-test"}
	_, port, _ := net.SplitHostPort(server.Addr)
	acl := `acl { enabled = true, default_policy = "deny", tokens { initial_management = "` + server.Token + `" } }`
	agent := exec.Command(binary, "agent", "-dev", "-bind", "127.0.0.1", "-log-level", "warn",
		"-http-port", port, "-dns-port", "-1", "-grpc-port", "-1", "-serf-wan-port", "-1",
		"-serf-lan-port", fmt.Sprint(freePort(t)), "-server-port", fmt.Sprint(freePort(t)), "-hcl", acl)
	var output bytes.Buffer
	agent.Stdout, agent.Stderr = &output, &output
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if t.Failed() {
			t.Logf("consul:\n%s", output.String())
		}
	})
	server.await(t)
	return server
}

// client is the library's own client, to write and to look with.
func (s *consulServer) client(t *testing.T) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: s.Addr, Token: s.Token})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (s *consulServer) await(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	kv := s.client(t).KV()
	for {
		if _, err := kv.Put(&api.KVPair{Key: "ready"}, (&api.WriteOptions{}).WithContext(ctx)); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("consul did not start")
		case <-tick.C:
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
