package testenv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ConsulOptions say how Consul starts. The zero value lets anybody do anything.
type ConsulOptions struct {
	// ACL denies everything to a request without a token.
	ACL bool
	// TLS serves HTTPS with a certificate of this authority, to clients that show one
	// of it; plain HTTP when nil.
	TLS *Authority
	// Follow makes it a follower of that server, which has no ACLs; alone when nil.
	Follow *ConsulServer
}

// ConsulServer is a running Consul server in its datacenter dc1.
type ConsulServer struct {
	// Addr is its HTTP address, a URL.
	Addr string
	// Token may do anything; empty without ACLs.
	Token string

	serf    string // port of the gossip
	scheme  string
	client  *http.Client
	dir     string
	process *process
}

// managementToken is the token that may do anything. Consul wants a UUID.
const managementToken = "11111111-2222-4333-8444-555555555555"

// StartConsul starts a Consul server. ctx bounds the start alone.
func StartConsul(ctx context.Context, options ConsulOptions) (*ConsulServer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, _, err := stateDir("", "consul")
	if err != nil {
		return nil, err
	}
	s := &ConsulServer{scheme: "http", client: http.DefaultClient, dir: dir}
	args, err := s.configure(options)
	if err == nil {
		_, err = retryPorts(func() (struct{}, error) { return struct{}{}, s.start(ctx, args) })
	}
	if err != nil {
		return nil, fmt.Errorf("start Consul: %w", errors.Join(err, s.Stop()))
	}
	return s, nil
}

// ConnectConsul is a server with ACLs that somebody else runs, by its address and
// its management token. It cannot be paused or stopped.
func ConnectConsul(addr, token string) *ConsulServer {
	return &ConsulServer{Addr: addr, Token: token, scheme: "http", client: http.DefaultClient}
}

// configure writes what the options say into files, and answers the arguments that do
// not change from one try to start to the next.
func (s *ConsulServer) configure(options ConsulOptions) ([]string, error) {
	args := []string{
		"agent", "-bind=" + loopback, "-client=" + loopback, "-log-level=warn",
		"-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-serf-wan-port=-1",
	}
	if leader := options.Follow; leader != nil {
		args = append(args, "-server", "-node=follower", "-data-dir="+filepath.Join(s.dir, "data"),
			"-retry-join="+loopback+":"+leader.serf)
	} else {
		args = append(args, "-dev", "-node=leader")
	}
	if options.ACL {
		s.Token = managementToken
		file := filepath.Join(s.dir, "acl.hcl")
		args = append(args, "-config-file="+file)
		if err := os.WriteFile(file, fmt.Appendf(nil, aclConfig, managementToken), 0o600); err != nil {
			return nil, err
		}
	}
	if options.TLS == nil {
		return args, nil
	}
	file, err := s.secure(options.TLS)
	return append(args, "-http-port=-1", "-config-file="+file), err
}

// aclConfig turns ACLs on with a first token.
const aclConfig = `acl {
  enabled        = true
  default_policy = "deny"
  tokens {
    initial_management = %[1]q
    agent              = %[1]q
  }
}
`

// secure writes the configuration of HTTPS, and gives the server's own client a
// certificate.
func (s *ConsulServer) secure(ca *Authority) (file string, err error) {
	cert, key, err := ca.Server("consul")
	if err != nil {
		return "", err
	}
	file = filepath.Join(s.dir, "tls.hcl")
	for name, text := range map[string][]byte{
		"ca.crt": ca.PEM, "tls.crt": cert, "tls.key": key, "tls.hcl": fmt.Appendf(nil, tlsConfig, s.dir),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	cert, key, err = ca.Client("testenv")
	if err != nil {
		return "", err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	s.scheme, s.client = "https", &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair},
	}}}
	return file, nil
}

// tlsConfig has HTTPS ask for client certificates.
const tlsConfig = `tls {
  https {
    ca_file         = "%[1]s/ca.crt"
    cert_file       = "%[1]s/tls.crt"
    key_file        = "%[1]s/tls.key"
    verify_incoming = true
  }
}
`

// start starts the process on free ports and waits until it has elected itself.
func (s *ConsulServer) start(ctx context.Context, args []string) error {
	ports, err := FreePorts(ctx, 3)
	if err != nil {
		return err
	}
	s.serf = ports[1]
	s.Addr = s.scheme + "://" + loopback + ":" + ports[0]
	s.process, err = startProcess(ctx, s.dir, "consul", slices.Concat(args,
		[]string{"-" + s.scheme + "-port=" + ports[0], "-serf-lan-port=" + ports[1], "-server-port=" + ports[2]})...)
	if err != nil {
		return err
	}
	return s.process.waitReady(ctx, s.ready)
}

// ready says whether a leader serves requests and, with ACLs, knows the token.
func (s *ConsulServer) ready(ctx context.Context) error {
	leader, err := get(ctx, s.client, s.Addr+"/v1/status/leader", nil)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(leader)) == `""` {
		return errors.New("no leader yet")
	}
	path := "/v1/kv/?keys" // 404 in an empty store: the leader was asked
	if s.Token != "" {
		path = "/v1/acl/token/self"
	}
	_, err = get(ctx, s.client, s.Addr+path, s.header())
	if err != nil && s.Token == "" && strings.Contains(err.Error(), "404") {
		return nil
	}
	return err
}

// header authenticates with the management token.
func (s *ConsulServer) header() http.Header {
	if s.Token == "" {
		return nil
	}
	return http.Header{"X-Consul-Token": {s.Token}}
}

// ReadToken makes a token that may read the keys below prefix and nothing else.
// It needs ACLs.
func (s *ConsulServer) ReadToken(ctx context.Context, prefix string) (string, error) {
	rules := fmt.Sprintf(`key_prefix %q { policy = "read" }`, prefix)
	var policy struct{ ID string }
	// A random part in the name: two tokens may be for one prefix.
	err := s.put(ctx, "/v1/acl/policy", map[string]any{"Name": "read-" + randomName(), "Rules": rules}, &policy)
	if err != nil {
		return "", fmt.Errorf("make a policy: %w", err)
	}
	var token struct{ SecretID string }
	err = s.put(ctx, "/v1/acl/token", map[string]any{"Policies": []map[string]string{{"ID": policy.ID}}}, &token)
	if err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return token.SecretID, nil
}

// Put writes one key.
func (s *ConsulServer) Put(ctx context.Context, key, value string) error {
	_, err := call(ctx, s.client, http.MethodPut, s.Addr+"/v1/kv/"+key, s.header(), strings.NewReader(value))
	return err
}

// Delete removes one key.
func (s *ConsulServer) Delete(ctx context.Context, key string) error {
	_, err := call(ctx, http.DefaultClient, http.MethodDelete, s.Addr+"/v1/kv/"+key, s.header(), http.NoBody)
	return err
}

// put sends a JSON request and decodes the answer.
func (s *ConsulServer) put(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	said, err := call(ctx, s.client, http.MethodPut, s.Addr+path, s.header(), strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	return json.Unmarshal(said, answer)
}

// Pause stops the server from answering while its connections stay open.
func (s *ConsulServer) Pause() error { return s.process.pause() }

// Resume ends Pause.
func (s *ConsulServer) Resume() error { return s.process.signal(syscall.SIGCONT) }

// PID is the server's process.
func (s *ConsulServer) PID() int { return s.process.cmd.Process.Pid }

// Stop kills the server. It may be called twice.
func (s *ConsulServer) Stop() error {
	s.process.stop()
	s.client.CloseIdleConnections()
	return os.RemoveAll(s.dir)
}
