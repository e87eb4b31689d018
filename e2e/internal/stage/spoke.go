package stage

import (
	"context"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testenv"
)

// Spoke is a spoke cluster and its agent process.
type Spoke struct {
	*testenv.Cluster
	// Name is the cluster's identity.
	Name string
	// MetricsURL is the agent's /metrics, HealthURL its /readyz; both change with a
	// restart.
	MetricsURL, HealthURL string
	// ProfilesURL is its /debug/pprof.
	ProfilesURL string

	hub     *Hub
	args    []string
	binary  string
	caFile  string   // what an installer hands to the agent
	joining []string // the flags of a join
	program *testenv.Program
	// deployed takes the place of the process where somebody else runs it.
	deployed Deployed
}

// Enrol registers the cluster on the hub and keeps what its agent needs: the hub's
// roots, and a join token where the cluster is to join by one. Otherwise the hub is
// told the cluster's keys, and there is no secret to hand over.
func (s *Spoke) Enrol(ctx context.Context, byJoinToken bool) error {
	if err := s.UpdateCA(ctx); err != nil {
		return err
	}
	if !byJoinToken {
		keys, err := s.Keys(ctx)
		if err != nil {
			return err
		}
		return s.hub.Register(ctx, s.Name, keys)
	}
	token, err := s.hub.RegisterToJoin(ctx, s.Name)
	if err != nil {
		return err
	}
	file, err := write(s.Dir, "join-token", token)
	s.joining = []string{"--join-token-file=" + file}
	return err
}

// UpdateCA gives the agent the roots that the hub publishes now.
func (s *Spoke) UpdateCA(ctx context.Context) error {
	ca, err := s.hub.CA(ctx)
	if err != nil {
		return err
	}
	s.caFile, err = write(s.Dir, "hub-ca.crt", ca)
	return err
}

// Keys are what the API server publishes, as `kubectl get --raw` shows them.
func (s *Spoke) Keys(ctx context.Context) (*v1alpha1.ClusterKeys, error) {
	api, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	jwks, err := api.RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(ctx)
	return &v1alpha1.ClusterKeys{Issuer: testenv.DefaultIssuer, JWKS: string(jwks)}, err
}

// Token is a token of the agent's ServiceAccount for an audience.
func (s *Spoke) Token(ctx context.Context, audience string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: spokeAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	err := s.Client.SubResource("token").Create(ctx, account, request)
	return request.Status.Token, err
}

// Start starts the agent process and waits until it is ready, which does not mean
// that it is connected.
func (s *Spoke) Start(ctx context.Context) error {
	if s.deployed != nil {
		return s.deployed.Start(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return testenv.RetryPorts(func() error { return s.start(ctx) })
}

func (s *Spoke) start(ctx context.Context) error {
	ports, err := testenv.FreePorts(ctx, 3)
	if err != nil {
		return err
	}
	s.HealthURL, s.MetricsURL = "http://"+loopback+ports[0]+"/readyz", "http://"+loopback+ports[1]+"/metrics"
	s.ProfilesURL = "http://" + loopback + ports[2] + "/debug/pprof"
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, Namespace, spokeAccount)
	if err != nil {
		return err
	}
	args, err := knownTo(ctx, s.binary, append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace, "--cluster=" + s.Name,
		"--hub-address=" + s.hub.Address, "--hub-ca-file=" + s.caFile,
		"--health-probe-bind-address=" + loopback + ports[0], "--metrics-bind-address=" + loopback + ports[1], "--pprof-bind-address=" + loopback + ports[2],
		"--log-level=debug",
	}, slices.Concat(s.joining, s.args)...))
	if err != nil {
		return err
	}
	if s.program, err = testenv.StartProgram(ctx, s.Dir, "spoke", s.binary, args...); err != nil {
		return err
	}
	return s.program.WaitReady(ctx, probe(s.HealthURL))
}

// Twin is another agent of the same cluster, with the same identity, that does not run
// yet.
func (s *Spoke) Twin() *Spoke {
	twin := *s
	twin.program = nil
	return &twin
}

// Terminate asks the agent process to end, as a kubelet does, and waits for it.
func (s *Spoke) Terminate(ctx context.Context) error {
	if s.deployed != nil {
		return s.deployed.Terminate(ctx)
	}
	return s.program.Terminate(ctx)
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
