package syncserver_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func beat() *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{}}}
}

func inventory(lines ...string) *fleetv1.SessionRequest {
	page := &fleetv1.InventoryPage{InventoryId: 1, Last: true}
	for _, line := range lines {
		page.Renders = append(page.Renders, parseSpec(line))
	}
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: page}}
}

func upsert(line string) *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: parseSpec(line)}}
}

func TestSession_WithoutACertificate(t *testing.T) {
	s := newSite(t, nil)
	stream, err := fleetv1.NewSyncServiceClient(s.port.Dial(t, nil)).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	if got := spoketest.VerdictOf(err); got != (spoketest.Verdict{Code: codes.Unauthenticated, Reason: identity.ReasonCertificateMissing}) {
		t.Errorf("verdict %+v", got)
	}
}

func TestSession_ASilentSpokeLosesIt(t *testing.T) {
	s := newSite(t, func(c *syncserver.Config) { c.Heartbeat = 50 * time.Millisecond })
	a := s.open(t, "prod", time.Hour)
	a.tell(helloFrame("v1", ""))
	if got := a.verdict(); got != (spoketest.Verdict{Code: codes.DeadlineExceeded, Reason: identity.ReasonHeartbeatMissed}) {
		t.Errorf("verdict %+v", got)
	}
	if s.fleet.Connected("prod") {
		t.Error("the fleet still has it")
	}
}

func TestSession_EndsAtItsAge(t *testing.T) {
	s := newSite(t, func(c *syncserver.Config) { c.MaxAge = 100 * time.Millisecond })
	a := s.open(t, "prod", time.Hour)
	a.tell(helloFrame("v1", ""))
	if got := a.verdict(); got != (spoketest.Verdict{Code: codes.Aborted, Reason: identity.ReasonSessionAged}) {
		t.Errorf("verdict %+v", got)
	}
}

// A registry that cannot answer costs no session that is there.
func TestSession_ARegistryThatFailsEndsNoOlderSession(t *testing.T) {
	var failing atomic.Bool
	s := newSite(t, func(c *syncserver.Config) {
		c.Registry = &between{Registry: c.Registry, before: func() error {
			if failing.Load() {
				return errors.New("dial tcp 10.0.0.1:6443: connection refused")
			}
			return nil
		}}
	})
	older := s.open(t, "prod", time.Hour)
	older.hello()
	failing.Store(true)
	newer := s.open(t, "prod", time.Hour)
	newer.tell(helloFrame("v1", ""))
	if got := newer.verdict(); got != (spoketest.Verdict{Code: codes.Unavailable, Reason: identity.ReasonUnavailable}) {
		t.Errorf("verdict %+v", got)
	}
	if !older.send(inventory("shop/web@1"), 0) {
		t.Errorf("the older session is over: %+v", older.verdict())
	}
}

// between runs hooks around the opening of a session.
type between struct {
	syncserver.Registry
	before func() error
	after  func()
}

func (b *between) OpenSession(ctx context.Context, cluster string, s v1alpha1.SpokeSession) (int64, error) {
	if b.before != nil {
		if err := b.before(); err != nil {
			return 0, err
		}
	}
	epoch, err := b.Registry.OpenSession(ctx, cluster, s)
	if b.after != nil {
		b.after()
	}
	return epoch, err
}

// The controller that ends sessions has found none yet at that moment.
func TestSession_SuspendedWhileItOpens(t *testing.T) {
	var s *site
	s = newSite(t, func(c *syncserver.Config) {
		c.Registry = &between{Registry: c.Registry, after: func() {
			spoke := &v1alpha1.SpokeCluster{}
			err := s.kube.Get(t.Context(), client.ObjectKey{Name: "prod"}, spoke)
			spoke.Spec.Suspend = true
			if err = errors.Join(err, s.kube.Update(t.Context(), spoke)); err != nil {
				t.Error(err)
			}
		}}
	})
	a := s.open(t, "prod", time.Hour)
	a.tell(helloFrame("v1", ""))
	if got := a.verdict().Reason; got != identity.ReasonSuspended {
		t.Errorf("reason %s", got)
	}
	if s.fleet.Connected("prod") {
		t.Error("it holds a session")
	}
}

// A session that serves must be one that the status knows.
func TestSession_TakenForOverWhileItOpens(t *testing.T) {
	s := newSite(t, func(c *syncserver.Config) {
		inner := c.Registry
		c.Registry = &between{Registry: inner, after: func() {
			if err := inner.CloseSession(t.Context(), "prod", 1); err != nil {
				t.Error(err)
			}
		}}
	})
	a := s.open(t, "prod", time.Hour)
	if err := a.stream.Send(helloFrame("v1", "")); err != nil {
		t.Fatal(err)
	}
	if got := a.verdict().Reason; got != identity.ReasonUnavailable {
		t.Errorf("reason %s", got)
	}
	if s.fleet.Connected("prod") {
		t.Error("it holds a session")
	}
}

var _ syncserver.Registry = (*registry.Registry)(nil)

// The replica that serves the other agent tells nobody: the status is all there is.
func TestSession_AnotherAgentOpensElsewhereWhileItOpens(t *testing.T) {
	for name, tc := range map[string]struct{ instance, want string }{
		"one of another name":      {"agent-2", identity.ReasonSuperseded},
		"the same on its next way": {"agent-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, func(c *syncserver.Config) {
				inner := c.Registry
				c.Registry = &between{Registry: inner, after: func() {
					if _, err := inner.OpenSession(t.Context(), "prod", v1alpha1.SpokeSession{Hub: "hub-2", Instance: tc.instance}); err != nil {
						t.Error(err)
					}
				}}
			})
			a := s.open(t, "prod", time.Hour)
			a.tell(helloFrame("v1", "agent-1"))
			if tc.want == "" {
				a.next()
			} else if got := a.verdict().Reason; got != tc.want {
				t.Errorf("reason %q", got)
			}
			if s.fleet.Connected("prod") != (tc.want == "") {
				t.Errorf("it holds a session: %v", s.fleet.Connected("prod"))
			}
		})
	}
}

// What an agent says of itself is kept in a status, and may not fill it.
func TestSession_KeepsLittleOfWhatAnAgentCallsItself(t *testing.T) {
	s := newSite(t, nil)
	a := s.open(t, "prod", time.Hour)
	a.helloOf(strings.Repeat("i", 100_000))
	c := &v1alpha1.SpokeCluster{}
	if err := s.kube.Get(t.Context(), client.ObjectKey{Name: "prod"}, c); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Status.Session.Instance); n != 128 {
		t.Errorf("%d bytes of the agent's name are kept", n)
	}
}

func TestSession_AHotLoopOfOneClusterCostsNobodyElse(t *testing.T) {
	s := newSite(t, nil)
	loops := func() (err error) {
		for range 20 {
			a := s.open(t, "prod", time.Hour)
			_ = a.stream.CloseSend()
			if got := a.verdict(); got.Reason == identity.ReasonTooManyRequests {
				return a.end
			}
		}
		return nil
	}
	hint := time.Duration(0)
	for _, detail := range status.Convert(loops()).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			hint = info.GetRetryDelay().AsDuration()
		}
	}
	if hint <= 0 {
		t.Error("it is not told when to come again")
	}
	s.open(t, "dev", time.Hour).hello()
}

// gated is a mirror that waits before it takes a change.
type gated struct {
	*mirror
	reached, open chan struct{}
}

func (g *gated) Upsert(cluster string, r *v1alpha1.DynamicConfigRender) {
	if r.Name == "gate" {
		close(g.reached)
		<-g.open
	}
	g.mirror.Upsert(cluster, r)
}

// A change that waits in an older session must not undo what the newer one said.
func TestSession_AnOlderSessionIsNotHeardAnyMore(t *testing.T) {
	g := &gated{reached: make(chan struct{}), open: make(chan struct{})}
	s := newSite(t, func(c *syncserver.Config) { c.Mirror = g })
	g.mirror = s.mirror
	older := s.open(t, "prod", time.Hour)
	older.hello()
	older.send(inventory("shop/web@1"), 0)
	for _, frame := range []*fleetv1.SessionRequest{upsert("shop/gate@1"), upsert("shop/web@2")} {
		older.tell(frame)
	}
	<-g.reached
	newer := s.open(t, "prod", time.Hour)
	newer.hello()
	newer.tell(inventory("shop/web@3"))
	gomega.NewWithT(t).Eventually(func() int { return len(s.fleet.Sessions("prod")) }).
		WithTimeout(patience).Should(gomega.Equal(1), "the newer session does not take over")
	close(g.open)
	newer.send(beat(), 0) // once the older session is at rest
	if got := older.verdict().Reason; got != identity.ReasonSuperseded {
		t.Errorf("the older session ends with %s", got)
	}
	if diff := cmp.Diff([]string{"shop/web@3"}, s.mirror.lines()); diff != "" {
		t.Errorf("the mirror is not what the newer session said (-want +got):\n%s", diff)
	}
}

func TestSession_MirrorsTheSpecAsItsObject(t *testing.T) {
	s := newSite(t, nil)
	a := s.open(t, "prod", time.Hour)
	a.hello()
	a.send(inventory(), 0)
	full := &fleetv1.RenderSpec{
		Ref: &fleetv1.RenderRef{Namespace: "shop", Name: "web", Uid: "u-1"}, Generation: 7,
		Class: "vault", ClassKind: fleetv1.ClassKind_CLASS_KIND_CLUSTER, Key: "secret/web", Format: "json", Section: "db",
		Interval: durationpb.New(30 * time.Second), Suspend: true, SyncRequestedAt: "now",
		Target: &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_SECRET, Name: "web", Shape: fleetv1.Shape_SHAPE_ENTRIES},
	}
	for name, tc := range map[string]struct {
		spec *fleetv1.RenderSpec
		want v1alpha1.DynamicConfigRender
	}{
		"every field of a spec is mirrored": {full, v1alpha1.DynamicConfigRender{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web", UID: "u-1", Generation: 7,
				Annotations: map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"},
			},
			Spec: v1alpha1.DynamicConfigRenderSpec{
				Class: "vault", ClassKind: v1alpha1.ClassKindCluster, Key: "secret/web", Format: v1alpha1.FormatJSON, Section: "db",
				IntervalSeconds: ptr.To[int32](30), Suspend: true, Target: v1alpha1.RenderTarget{Secret: "web", Shape: v1alpha1.ShapeEntries},
			},
		}},
		"what a spec leaves out has the defaults": {&fleetv1.RenderSpec{
			Ref: &fleetv1.RenderRef{Namespace: "shop", Name: "web"}, Target: &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_CONFIG_MAP, Name: "web", File: "a.json"},
		}, v1alpha1.DynamicConfigRender{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: v1alpha1.DynamicConfigRenderSpec{
				ClassKind: v1alpha1.ClassKindNamespaced, Target: v1alpha1.RenderTarget{ConfigMap: "web", Shape: v1alpha1.ShapeFile, File: "a.json"},
			},
		}},
		"values of a newer agent are nothing this hub serves": {&fleetv1.RenderSpec{
			Ref: &fleetv1.RenderRef{Namespace: "shop", Name: "web"}, ClassKind: 99, Target: &fleetv1.Target{Kind: 99, Name: "web", Shape: 99},
		}, v1alpha1.DynamicConfigRender{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       v1alpha1.DynamicConfigRenderSpec{ClassKind: "unknown", Target: v1alpha1.RenderTarget{Shape: "unknown"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a.send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: tc.spec}}, 0)
			if diff := cmp.Diff(&tc.want, s.mirror.get("shop/web")); diff != "" {
				t.Errorf("mirrored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSession_DeliversTheBytes(t *testing.T) {
	s := newSite(t, nil)
	a := s.open(t, "prod", time.Hour)
	a.hello()
	a.send(inventory("shop/web@1"), 0)
	data := map[string][]byte{"app.json": []byte(`{"a":1}`), "bin": {0, 0xff}}
	s.fleet.Deliver("prod", fleet.ID{Namespace: "shop", Name: "web"}, fleet.Answer{
		UID: "uid-web", Generation: 1, Content: &fleet.Content{ID: []byte{1, 2}, Data: data},
	})
	if diff := cmp.Diff(data, a.next().GetDeliver().GetData()); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}
