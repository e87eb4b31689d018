package syncserver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Every session's goroutines end with it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a loaded machine may take.
const patience = 30 * time.Second

// site is a hub's session server with everything real around it but the cluster
// that keeps SpokeClusters and the controller that reads mirrors.
type site struct {
	ca     *authority.Authority
	fleet  *fleet.Fleet
	mirror *mirror
	server *syncserver.Server
	kube   client.Client
	port   *spoketest.Port
}

// newSite serves sessions of the accepted clusters prod and dev.
func newSite(t *testing.T, configure func(*syncserver.Config)) *site {
	t.Helper()
	s := &site{
		ca: spoketest.Authority(t), fleet: fleet.New(fleet.Config{}), mirror: &mirror{renders: map[string]*v1alpha1.DynamicConfigRender{}},
		kube: fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithStatusSubresource(&v1alpha1.SpokeCluster{}).
			WithObjects(spokeCluster("prod"), spokeCluster("dev")).Build(),
	}
	cfg := syncserver.Config{
		Fleet: s.fleet, Mirror: s.mirror, Bundle: s.ca.BundleDER, Hub: "hub-1",
		Registry: &registry.Registry{Reader: s.kube, Status: s.kube.Status(), Now: time.Now},
		Peers:    &peer.Verifier{Roots: s.ca.Roots, TrustDomain: s.ca.TrustDomain(), Now: time.Now},
	}
	if configure != nil {
		configure(&cfg)
	}
	s.server = syncserver.New(cfg)
	s.port = spoketest.Serve(t, s.ca, func(g *grpc.Server) { fleetv1.RegisterSyncServiceServer(g, s.server) })
	return s
}

func spokeCluster(name string) *v1alpha1.SpokeCluster {
	return &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
}

// mirror keeps what a session says of one cluster.
type mirror struct {
	mu      sync.Mutex // guards renders
	renders map[string]*v1alpha1.DynamicConfigRender
}

func (m *mirror) Replace(_ context.Context, _ string, renders []*v1alpha1.DynamicConfigRender) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.renders)
	for _, r := range renders {
		m.renders[r.Namespace+"/"+r.Name] = r
	}
	return nil
}

func (m *mirror) Upsert(_ string, r *v1alpha1.DynamicConfigRender) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renders[r.Namespace+"/"+r.Name] = r
}

func (m *mirror) Remove(_, namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.renders, namespace+"/"+name)
}

func (m *mirror) get(name string) *v1alpha1.DynamicConfigRender {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renders[name]
}

// lines are the mirrored Renders with their generations, sorted.
func (m *mirror) lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m.renders)) {
		out = append(out, fmt.Sprintf("%s@%d", name, m.renders[name].Generation))
	}
	return out
}

// spoke is an agent that says what it is told to say.
type spoke struct {
	t      *testing.T
	site   *site
	stream grpc.BidiStreamingClient[fleetv1.SessionRequest, fleetv1.SessionResponse]
	frames chan *fleetv1.SessionResponse // all but heartbeats
	ended  chan struct{}                 // closed when the stream is over, after end is set
	end    error
}

// open opens a stream as a cluster, with a certificate that lives for a while.
func (s *site) open(t *testing.T, cluster string, lives time.Duration) *spoke {
	t.Helper()
	conn := s.port.Dial(t, spoketest.Certificate(t, s.ca, cluster, lives))
	stream, err := fleetv1.NewSyncServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := &spoke{
		t: t, site: s, stream: stream,
		frames: make(chan *fleetv1.SessionResponse, 1024), ended: make(chan struct{}),
	}
	go a.receive() // until the stream is over
	return a
}

func (a *spoke) receive() {
	defer close(a.ended)
	for {
		frame, err := a.stream.Recv()
		if err != nil {
			a.end = err
			return
		}
		if frame.GetHeartbeat() == nil {
			a.frames <- frame
		}
	}
}

// next is the next frame that is no heartbeat.
func (a *spoke) next() *fleetv1.SessionResponse {
	a.t.Helper()
	select {
	case frame := <-a.frames:
		return frame
	default:
	}
	select {
	case frame := <-a.frames:
		return frame
	case <-a.ended:
		a.t.Fatalf("the stream is over: %v", a.end)
	case <-time.After(patience):
		a.t.Fatal("no frame came")
	}
	return nil
}

// verdict waits for the stream's end.
func (a *spoke) verdict() spoketest.Verdict {
	a.t.Helper()
	select {
	case <-a.ended:
	case <-time.After(patience):
		a.t.Fatal("the stream does not end")
	}
	return verdictOf(a.end)
}

// tell sends a frame, and does not wait for what comes of it.
func (a *spoke) tell(frame *fleetv1.SessionRequest) {
	a.t.Helper()
	if err := a.stream.Send(frame); err != nil {
		a.t.Fatal(err)
	}
}

// send sends a frame and waits until the hub has acted on it, of which it ignores so
// many parts. It reports false when the stream is over instead.
func (a *spoke) send(frame *fleetv1.SessionRequest, ignored int64) bool {
	a.t.Helper()
	before := a.site.server.Ignored()
	// A frame of no kind is ignored, and counted once those before it are handled.
	_, _ = a.stream.Send(frame), a.stream.Send(&fleetv1.SessionRequest{})
	over := false
	gomega.NewWithT(a.t).Eventually(func() bool {
		select {
		case <-a.ended:
			over = true
		default:
		}
		return over || a.site.server.Ignored() >= before+ignored+1
	}).WithTimeout(patience).WithPolling(time.Millisecond).Should(gomega.BeTrue(), "the hub does not handle the frame")
	return !over
}

// hello says hello and waits for the welcome.
func (a *spoke) hello() *fleetv1.Welcome {
	a.t.Helper()
	return a.helloOf("")
}

// helloOf says hello as an agent of that name.
func (a *spoke) helloOf(instance string) *fleetv1.Welcome {
	a.t.Helper()
	a.tell(helloFrame("v1.0.0", instance))
	return a.next().GetWelcome()
}

func helloFrame(version, instance string) *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Hello{Hello: &fleetv1.Hello{
		Agent: &fleetv1.Agent{Version: version, Instance: instance}, ProtocolVersion: syncserver.ProtocolVersion,
	}}}
}
