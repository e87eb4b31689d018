package stage

import (
	"context"

	"dynamic-config.rs/fleet/internal/testenv"
)

// Spoke is a spoke cluster and its agent process.
type Spoke struct {
	*testenv.Cluster
	// Name is the cluster's identity.
	Name string

	hub           *Hub
	args          []string
	binary        string
	health        string
	caFile, token string // what an installer hands to the agent
	program       *testenv.Program
	// deployed takes the place of the process where somebody else runs it.
	deployed Deployed
}

// Enrol registers the cluster on the hub and keeps what its agent needs: the hub's
// roots and a join token.
func (s *Spoke) Enrol(ctx context.Context) error {
	ca, err := s.hub.CA(ctx)
	if err != nil {
		return err
	}
	if s.caFile, err = write(s.Dir, "hub-ca.crt", ca); err != nil {
		return err
	}
	token, err := s.hub.Register(ctx, s.Name, map[string]string{"fleet": "e2e"})
	if err != nil {
		return err
	}
	s.token, err = write(s.Dir, "join-token", token)
	return err
}

// Start starts the agent process and waits until it is ready, which does not mean
// that it is connected.
func (s *Spoke) Start(ctx context.Context) error {
	if s.deployed != nil {
		return s.deployed.Start(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ports, err := testenv.FreePorts(ctx, 2)
	if err != nil {
		return err
	}
	s.health = "http://" + loopback + ports[0] + "/readyz"
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, Namespace, spokeAccount)
	if err != nil {
		return err
	}
	args, err := knownTo(ctx, s.binary, append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace, "--cluster=" + s.Name,
		"--hub-address=" + s.hub.Address, "--hub-ca-file=" + s.caFile, "--join-token-file=" + s.token,
		"--health-probe-bind-address=" + loopback + ports[0], "--metrics-bind-address=" + loopback + ports[1],
		"--log-level=debug",
	}, s.args...))
	if err != nil {
		return err
	}
	if s.program, err = testenv.StartProgram(ctx, s.Dir, "spoke", s.binary, args...); err != nil {
		return err
	}
	return s.program.WaitReady(ctx, probe(s.health))
}

// Kill ends the agent process as kill -9 does.
func (s *Spoke) Kill() {
	if s.deployed != nil {
		s.deployed.Kill()
	}
	if s.program != nil {
		s.program.Kill()
	}
}

// Log is everything the agent process wrote.
func (s *Spoke) Log() ([]byte, error) {
	if s.deployed != nil {
		return s.deployed.Log()
	}
	return s.program.Log()
}
