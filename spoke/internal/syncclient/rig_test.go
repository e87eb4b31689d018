package syncclient_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/credential"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

// patience is how long a test waits for what must come, on a busy machine.
const patience = 90 * time.Second

// receiver keeps what the hub answers.
type receiver struct {
	deliveries chan delivery
	currents   chan *fleetv1.Current
	refusals   chan *fleetv1.Refusal
	connected  chan bool
	troubles   chan string // reasons for which there is no session
}

type delivery struct {
	*fleetv1.Deliver
	reply func(*fleetv1.DeliveryResult)
}

func newReceiver() *receiver {
	return &receiver{
		deliveries: make(chan delivery, 16), currents: make(chan *fleetv1.Current, 16),
		refusals: make(chan *fleetv1.Refusal, 16), connected: make(chan bool, 64), troubles: make(chan string, 64),
	}
}

func (r *receiver) Deliver(d *fleetv1.Deliver, reply func(*fleetv1.DeliveryResult)) {
	r.deliveries <- delivery{d, reply}
}

func (r *receiver) Current(c *fleetv1.Current) { r.currents <- c }

func (r *receiver) Refuse(f *fleetv1.Refusal) { r.refusals <- f }

func (r *receiver) Connected(isConnected bool) { r.connected <- isConnected }

func (r *receiver) NoSession(why, reason string) {
	r.troubles <- why + " (" + reason + ")"
}

// keeper keeps a credential in memory.
type keeper struct {
	mu     sync.Mutex
	kept   *credential.Credential
	loads  error
	locked error // what Save answers
	once   error // what Save answers once something is kept
	saves  int
	looks  int // calls of Load
	tries  int // calls of Save
}

func (k *keeper) Load(context.Context) (*credential.Credential, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks++
	return k.kept, k.loads
}

// looked is how often the keeper was asked for what it keeps.
func (k *keeper) looked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looks
}

// tried is how often the keeper was asked to keep something.
func (k *keeper) tried() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tries
}

// lock makes every Save fail, or none where err is nil.
func (k *keeper) lock(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.locked = err
}

// keeps is what is kept.
func (k *keeper) keeps() *credential.Credential {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept
}

func (k *keeper) Save(_ context.Context, c *credential.Credential) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries++
	if k.locked != nil {
		return k.locked
	}
	k.kept = c
	k.saves++
	k.locked = k.once
	return nil
}

// account is a ServiceAccount whose tokens the hub of the tests accepts.
type account struct {
	mu   sync.Mutex // guards what follows
	jwks string     // none can be read where it is empty
	down error      // what Token answers
}

func (a *account) Token(_ context.Context, audience string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hubtest.Proof(audience), a.down
}

func (a *account) Keys(context.Context) (*fleetv1.ClusterKeys, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jwks == "" {
		return nil, errors.New("forbidden")
	}
	return &fleetv1.ClusterKeys{Issuer: "https://cluster.example", Jwks: []byte(a.jwks)}, nil
}

// agent is a client that runs until the test ends.
type agent struct {
	*syncclient.Client
	*receiver
	keeper *keeper
	logs   *lines
	stop   func()
}

func start(t *testing.T, h *hubtest.Hub, change ...func(*syncclient.Config)) *agent {
	t.Helper()
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(hubtest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &agent{receiver: newReceiver(), keeper: &keeper{}, logs: &lines{}}
	config := syncclient.Config{
		Address: h.Address, ServerName: hubtest.ServerName, CAFile: h.CAFile, Cluster: "east",
		TrustDomain: identity.DefaultTrustDomain, Evidence: &account{}, JoinTokenFile: tokenFile,
		Version: "v1", Instance: "i-1", Credentials: a.keeper, Receiver: a.receiver,
		Backoff: syncclient.Backoff{AfterSession: time.Millisecond, Min: time.Millisecond, Max: 10 * time.Millisecond},
	}
	for _, c := range change {
		c(&config)
	}
	var err error
	if a.Client, err = syncclient.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), a.logs.logger()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var once sync.Once
	a.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(a.stop)
	return a
}

// spec is a spec whose have is what the target holds.
func spec(name, have string) *fleetv1.RenderSpec {
	s := &fleetv1.RenderSpec{
		Ref: &fleetv1.RenderRef{Namespace: "team", Name: name, Uid: "uid-" + name}, Generation: 1, Class: "c", Key: "k",
	}
	if have != "" {
		s.HaveContentId = []byte(have)
	}
	return s
}

// get waits for a value.
func get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func deliver(nonce uint64, s *fleetv1.RenderSpec, id string) *fleetv1.SessionResponse {
	return &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Deliver{Deliver: &fleetv1.Deliver{
		Nonce: nonce, Ref: s.GetRef(), Generation: s.GetGeneration(), ContentId: []byte(id),
	}}}
}
