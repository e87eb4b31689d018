package syncclient_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

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
func (r *receiver) Refuse(f *fleetv1.Refusal)  { r.refusals <- f }
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

func TestRun_EnrolsAndSaysHello(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	s := h.Accept(t)
	if s.Cluster != "east" || s.Hello.GetAgent().GetVersion() != "v1" || s.Hello.GetProtocolVersion() != 1 {
		t.Errorf("unexpected session of %q: %v", s.Cluster, s.Hello)
	}
	if specs := s.Inventory(t); len(specs) != 0 {
		t.Errorf("want an empty inventory, got %v", specs)
	}
	if !get(t, a.connected) || !a.Enrolled() {
		t.Error("want the receiver told of the session")
	}
	if a.keeper.saves != 1 || a.keeper.kept == nil {
		t.Error("want the credential kept")
	}
}

func TestRun_AKeptCredentialNeedsNoEnrolment(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	first := start(t, h)
	h.Accept(t)
	first.stop()
	start(t, h, func(c *syncclient.Config) {
		c.Credentials, c.Evidence = first.keeper, &account{down: errors.New("forbidden")}
	})
	if s := h.Accept(t); s.Cluster != "east" {
		t.Errorf("got cluster %q", s.Cluster)
	}
	if n := len(h.Enrolments()); n != 1 {
		t.Errorf("want one enrolment, got %d", n)
	}
}

func TestRun_AMalformedCredentialIsReplaced(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	start(t, h, func(c *syncclient.Config) {
		c.Credentials = &keeper{loads: fmt.Errorf("secret: %w", credential.ErrMalformed)}
	})
	h.Accept(t)
}

func TestRun_AnotherClustersIdentityIsNotUsed(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	first := start(t, h)
	h.Accept(t)
	first.stop()
	before := first.keeper.looked()
	start(t, h, func(c *syncclient.Config) { c.Credentials, c.Cluster = first.keeper, "west" })
	gomega.NewWithT(t).Eventually(func() int { return first.keeper.looked() - before }, patience).Should(gomega.BeNumerically(">", 3))
	if n := len(h.Enrolments()); n != 1 || first.keeper.saves != 1 {
		t.Errorf("%d enrolments and %d saves, want those of the first agent alone", n, first.keeper.saves)
	}
}

// kinds are the kinds of evidence that came.
func kinds(h *hubtest.Hub) []string {
	var all []string
	for _, request := range h.Enrolments() {
		switch request.GetEvidence().(type) {
		case *fleetv1.EnrollRequest_ServiceAccountToken:
			all = append(all, "token")
		case *fleetv1.EnrollRequest_JoinToken:
			all = append(all, "join")
		default:
			all = append(all, "none")
		}
	}
	return all
}

func TestRun_FirstContact(t *testing.T) {
	readable := func(c *syncclient.Config) { c.Evidence = &account{jwks: "{}"} }
	for name, tc := range map[string]struct {
		settings hubtest.Settings
		want     string // the evidence of the first requests
	}{
		"where the hub knows the keys no join token is sent": {hubtest.Settings{}, "[token]"},
		"where it does not, the join token follows":          {hubtest.Settings{UnknownKeys: true}, "[token join]"},
		"when its answer is lost, the token alone is enough": {hubtest.Settings{UnknownKeys: true, LoseJoin: true}, "[token join token]"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.Start(t, tc.settings)
			start(t, h, readable)
			h.Accept(t)
			if got := fmt.Sprint(kinds(h)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRun_WithoutReadableKeysAJoinTokenIsKept(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{UnknownKeys: true})
	start(t, h)
	gomega.NewWithT(t).Eventually(func() int { return len(h.Enrolments()) }, patience).Should(gomega.BeNumerically(">", 3))
	for _, kind := range kinds(h) {
		if kind != "token" {
			t.Fatalf("the join token was sent without keys: %v", kinds(h))
		}
	}
}

func TestRun_ACredentialThatCannotBeKeptIsNotUsed(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h, func(c *syncclient.Config) { c.Credentials.(*keeper).locked = errors.New("forbidden") })
	gomega.NewWithT(t).Eventually(a.keeper.tried, patience).Should(gomega.BeNumerically(">", 3))
	if a.Enrolled() {
		t.Error("it is used")
	}
	a.keeper.lock(nil)
	h.Accept(t)
}

func TestRun_RenewsWithANewKeyAndNewEvidence(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{RenewAfter: 100 * time.Millisecond})
	start(t, h)
	h.Accept(t)
	h.Accept(t)
	requests := h.Enrolments()
	if len(requests) < 2 {
		t.Fatalf("want a second enrolment, got %d", len(requests))
	}
	if string(requests[0].GetCsrDer()) == string(requests[1].GetCsrDer()) || requests[0].GetServiceAccountToken() == requests[1].GetServiceAccountToken() {
		t.Error("want a new key and a token for it")
	}
}

// A renewal that cannot be kept leaves the certificate that holds in use, and costs no
// session.
func TestRun_ARenewalThatCannotBeKeptChangesNothing(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{RenewAfter: 100 * time.Millisecond})
	a := start(t, h, func(c *syncclient.Config) { c.Credentials.(*keeper).once = errors.New("forbidden") })
	s := h.Accept(t)
	s.Inventory(t)
	before := a.keeper.keeps()
	gomega.NewWithT(t).Eventually(a.keeper.tried, patience).Should(gomega.BeNumerically(">", 1))
	a.Upsert(spec("pg", ""))
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "pg" {
		t.Errorf("want the session to go on, got %v", got)
	}
	if a.keeper.keeps() != before {
		t.Error("another credential is kept")
	}
}

func TestRun_AnExpiredCertificateLocksNobodyOut(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{Lifetime: time.Second, UnknownKeys: true})
	readable := func(c *syncclient.Config) { c.Evidence = &account{jwks: "{}"} }
	g := gomega.NewWithT(t)
	first := start(t, h, readable)
	g.Eventually(first.keeper.keeps, patience).ShouldNot(gomega.BeNil())
	first.stop()
	kept := first.keeper.keeps()
	g.Eventually(func() bool { return kept.ValidAt(time.Now()) }, patience).Should(gomega.BeFalse())
	// A second is too short for a session of a busy machine.
	h.Configure(func(s *hubtest.Settings) { s.Lifetime = time.Hour })
	second := start(t, h, readable, func(c *syncclient.Config) { c.Credentials, c.JoinTokenFile = first.keeper, "" })
	if !get(t, second.connected) {
		t.Error("want a session")
	}
}

// The hub learns the keys in every session, and no more of them while they stay.
func TestRun_TellsTheClustersKeys(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	start(t, h, func(c *syncclient.Config) { c.Evidence = &account{jwks: `{"keys":[]}`} })
	for range 2 {
		s := h.Accept(t)
		s.Inventory(t)
		if got := s.Next(t).GetKeys(); string(got.GetJwks()) != `{"keys":[]}` || got.GetIssuer() != "https://cluster.example" {
			t.Errorf("want the keys, got %v", got)
		}
		s.End(nil)
	}
}

func TestRun_ARejectedCertificateIsReplacedByEnrolling(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	other := hubtest.Start(t, hubtest.Settings{})
	first := start(t, other) // its certificate is of another hub
	other.Accept(t)
	first.stop()
	start(t, h, func(c *syncclient.Config) { c.Credentials = first.keeper })
	h.Accept(t)
	if n := len(h.Enrolments()); n != 1 {
		t.Errorf("want one enrolment, got %d", n)
	}
}

func TestRun_AHubThatIsNotPinnedIsNotSpokenTo(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	other := hubtest.Start(t, hubtest.Settings{})
	start(t, h, func(c *syncclient.Config) { c.CAFile = other.CAFile })
	right := start(t, h)
	h.Accept(t)
	right.stop()
	if n := len(h.Enrolments()); n != 1 {
		t.Errorf("want no token sent to a hub that is not pinned, got %d enrolments", n)
	}
}

func TestRun_SendsTheWholeInventoryInPagesAndThenDeltas(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	h.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.Unavailable, "Unavailable") })
	a := start(t, h)
	for i := range 450 {
		a.Upsert(spec(fmt.Sprintf("r%03d", i), ""))
	}
	a.Remove(spec("r007", "").GetRef())
	h.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	s := h.Accept(t)
	var sizes []int
	for last := false; !last; {
		page := s.Next(t).GetInventory()
		sizes = append(sizes, len(page.GetRenders()))
		last = page.GetLast()
	}
	if fmt.Sprint(sizes) != "[200 200 49]" {
		t.Errorf("want pages of [200 200 49], got %v", sizes)
	}

	a.Upsert(spec("new", ""))
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "new" {
		t.Errorf("want the new spec, got %v", got)
	}
	a.Upsert(spec("new", "")) // equal: no frame
	a.Ask(spec("new", ""))    // equal, and asked for
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "new" {
		t.Errorf("want the spec again, got %v", got)
	}
	a.Remove(&fleetv1.RenderRef{Namespace: "team", Name: "new"})
	if got := s.Next(t).GetRemove(); got.GetUid() != "uid-new" {
		t.Errorf("want the removal with its UID, got %v", got)
	}
}

func TestRun_HandsOnAnswersAndSendsResults(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	a.Upsert(spec("pg", ""))
	s := h.Accept(t)
	s.Inventory(t)
	s.Send(&fleetv1.SessionResponse{}) // a frame of a newer hub
	s.Send(deliver(7, spec("pg", ""), "id1"))
	d := get(t, a.deliveries)
	d.reply(&fleetv1.DeliveryResult{
		Nonce: d.GetNonce(), Ref: d.GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId(),
	})
	if got := drainUpserts(t, s).GetResult(); got.GetNonce() != 7 {
		t.Errorf("want the result of 7, got %v", got)
	}
	s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Refusal{Refusal: &fleetv1.Refusal{ReadyReason: "ClassNotFound"}}})
	if got := get(t, a.refusals); got.GetReadyReason() != "ClassNotFound" {
		t.Errorf("want the refusal, got %v", got)
	}
	s.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Current{Current: &fleetv1.Current{ContentId: []byte("id1")}}})
	if got := get(t, a.currents); string(got.GetContentId()) != "id1" {
		t.Errorf("want the news, got %v", got)
	}
}

// drainUpserts returns the next frame that is no upsert: a spec that was set while
// the session opened may come twice.
func drainUpserts(t *testing.T, s *hubtest.Session) *fleetv1.SessionRequest {
	t.Helper()
	for {
		if frame := s.Next(t); frame.GetUpsert() == nil {
			return frame
		}
	}
}

func TestRun_ReconnectsAndSaysWhatTheTargetsHold(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	a.Upsert(spec("pg", ""))
	s := h.Accept(t)
	s.Inventory(t)
	s.Send(deliver(1, spec("pg", ""), "id1"))
	d := get(t, a.deliveries)

	s.End(nil)
	again := h.Accept(t)
	again.Inventory(t)
	// The answer to a delivery of the session before is not for this one.
	d.reply(&fleetv1.DeliveryResult{
		Nonce: 1, Ref: d.GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: []byte("id1"),
	})
	a.Upsert(spec("other", ""))
	if frame := drainUntil(t, again, "other"); frame.GetResult() != nil {
		t.Errorf("a result of another session was sent: %v", frame)
	}
	again.End(nil)
	held := map[string]string{}
	for _, spec := range h.Accept(t).Inventory(t) {
		held[spec.GetRef().GetName()] = string(spec.GetHaveContentId())
	}
	if held["pg"] != "id1" {
		t.Errorf("want the inventory to say what was applied, got %v", held)
	}
}

// drainUntil returns the first frame that is a result or the upsert of a name.
func drainUntil(t *testing.T, s *hubtest.Session, name string) *fleetv1.SessionRequest {
	t.Helper()
	for {
		frame := s.Next(t)
		if frame.GetResult() != nil || frame.GetUpsert().GetRef().GetName() == name {
			return frame
		}
	}
}

func TestRun_ComesBackAfterTheHubCrashed(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	a.Upsert(spec("pg", "id1"))
	h.Accept(t).Inventory(t)
	h.Restart(t)
	specs := h.Accept(t).Inventory(t)
	if len(specs) != 1 || string(specs[0].GetHaveContentId()) != "id1" {
		t.Errorf("want the whole inventory again, got %v", specs)
	}
	if got := []bool{get(t, a.connected), get(t, a.connected), get(t, a.connected)}; fmt.Sprint(got) != "[true false true]" {
		t.Errorf("want the receiver told, got %v", got)
	}
}

func drained(window time.Duration) *fleetv1.SessionResponse {
	return &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Drain{Drain: &fleetv1.Drain{Window: durationpb.New(window)}}}
}

// As long as the next session does not open, the drained one serves; then the next one
// takes over, and nobody is told that the hub was lost.
func TestRun_ADrainedSessionServesUntilItIsReplaced(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	s := h.Accept(t)
	s.Inventory(t)
	h.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.Unavailable, "Draining") })
	s.Send(drained(time.Millisecond))
	s.Send(drained(time.Hour)) // a second window does not put it off
	gomega.NewWithT(t).Eventually(h.Rejections, patience).Should(gomega.BeNumerically(">", 2))
	a.Upsert(spec("pg", ""))
	if got := s.Next(t).GetUpsert(); got.GetRef().GetName() != "pg" {
		t.Errorf("want deltas in the drained session, got %v", got)
	}
	s.Send(deliver(7, spec("pg", ""), "id1"))
	d := get(t, a.deliveries)

	h.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	again := h.Accept(t)
	if specs := again.Inventory(t); len(specs) != 1 {
		t.Errorf("want the whole inventory, got %v", specs)
	}
	<-s.Over
	d.reply(&fleetv1.DeliveryResult{Nonce: 7, Ref: d.GetRef(), Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: d.GetContentId()})
	if got := again.Next(t).GetUpsert(); string(got.GetHaveContentId()) != "id1" {
		t.Errorf("want what the older session left told to the new one, got %v", got)
	}
	again.End(nil)
	h.Accept(t)
	if got := []bool{get(t, a.connected), get(t, a.connected), get(t, a.connected)}; fmt.Sprint(got) != "[true false true]" {
		t.Errorf("want no word of a session that was replaced, got %v", got)
	}
}

func TestRun_ManySessionsLeaveNothing(t *testing.T) {
	const sessions = 60
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	go func() { // until the test ends
		for {
			select {
			case <-a.connected:
			case <-t.Context().Done():
				return
			}
		}
	}()
	s := h.Accept(t)
	s.Inventory(t)
	before := runtime.NumGoroutine()
	for i := range sessions {
		if i%2 == 0 {
			s.Send(drained(0))
		} else {
			s.End(nil)
		}
		next := h.Accept(t)
		next.Inventory(t)
		<-s.Over
		s = next
	}
	// A session has half a dozen, which may not all have run when they were counted before.
	gomega.NewWithT(t).Eventually(runtime.NumGoroutine, patience).Should(gomega.BeNumerically("<=", before+sessions/2))
}

func TestRun_ARenewalReplacesTheSessionBeforeItEndsIt(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{RenewAfter: 100 * time.Millisecond})
	a := start(t, h)
	first := h.Accept(t)
	first.Inventory(t)
	h.Configure(func(s *hubtest.Settings) { s.RenewAfter = time.Hour })
	h.Accept(t).Inventory(t)
	<-first.Over
	a.stop()
	if got := []bool{get(t, a.connected), get(t, a.connected)}; fmt.Sprint(got) != "[true false]" {
		t.Errorf("want one connection from the first session to the end, got %v", got)
	}
}

func TestRun_WithoutEvidenceNothingIsSent(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	broken := &account{down: errors.New("forbidden")}
	a := start(t, h, func(c *syncclient.Config) { c.Evidence = broken })
	gomega.NewWithT(t).Eventually(a.keeper.looked, patience).Should(gomega.BeNumerically(">", 3))
	a.stop()
	if n := len(h.Enrolments()); n != 0 || a.Enrolled() {
		t.Errorf("want no enrolment, got %d", n)
	}
}

func TestConfig_Validate(t *testing.T) {
	good := syncclient.Config{
		Address: "hub:443", ServerName: "hub", CAFile: "ca.crt", Cluster: "east", TrustDomain: "d", Evidence: &account{},
		Credentials: &keeper{}, Receiver: newReceiver(),
	}
	cases := map[string]struct {
		change  func(*syncclient.Config)
		wantErr string
	}{
		"a full configuration is fine": {change: func(*syncclient.Config) {}},
		"an address needs a port":      {change: func(c *syncclient.Config) { c.Address = "hub" }, wantErr: "hub address"},
		"a server name is needed":      {change: func(c *syncclient.Config) { c.ServerName = "" }, wantErr: "server name"},
		"a CA is needed":               {change: func(c *syncclient.Config) { c.CAFile = "" }, wantErr: "CA file"},
		"a cluster is needed":          {change: func(c *syncclient.Config) { c.Cluster = "" }, wantErr: "cluster name"},
		"a trust domain is needed":     {change: func(c *syncclient.Config) { c.TrustDomain = "" }, wantErr: "trust domain"},
		"evidence is needed":           {change: func(c *syncclient.Config) { c.Evidence = nil }, wantErr: "enrol with"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := good
			tc.change(&config)
			err := config.Validate()
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("want %q, got %v", tc.wantErr, err)
			}
		})
	}
}

func TestError_CarriesTheReasonOfTheHub(t *testing.T) {
	err := syncclient.FromStatus(hubtest.Denied(codes.Unauthenticated, "CertificateExpired"))
	var typed *syncclient.Error
	if !errors.As(err, &typed) || typed.Reason != "CertificateExpired" || typed.Code != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestError_CarriesTheHubsHint(t *testing.T) {
	refused, err := status.New(codes.ResourceExhausted, "too often").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	var typed *syncclient.Error
	if !errors.As(syncclient.FromStatus(refused.Err()), &typed) || typed.RetryAfter != 7*time.Second {
		t.Errorf("got %v", typed)
	}
}
