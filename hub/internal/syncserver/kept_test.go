package syncserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1/kept"
)

// keptAgent is an agent of a version: it says the frames that were kept of it.
type keptAgent struct {
	*spoke
	version string
	// newer has it send fields and frames that this hub does not know.
	newer bool
}

func (a *keptAgent) frame(name string) *fleetv1.SessionRequest {
	a.t.Helper()
	frame := kept.Frame[*fleetv1.SessionRequest](a.t, a.version, name)
	if a.newer {
		return kept.Newer(frame)
	}
	return frame
}

// says sends a frame, every part of which the hub uses.
func (a *keptAgent) says(name string) {
	a.t.Helper()
	if a.newer && !a.send(kept.Newer(&fleetv1.SessionRequest{}), 1) { // of a kind that came later
		a.t.Fatalf("an unknown frame ended the session: %+v", a.verdict())
	}
	if !a.send(a.frame(name), 0) {
		a.t.Fatalf("%s ended the session: %+v", name, a.verdict())
	}
}

// hears takes the hub's next frame, which is what that version kept of it.
func (a *keptAgent) hears(name string) {
	a.t.Helper()
	got, want := a.next(), kept.Frame[*fleetv1.SessionResponse](a.t, a.version, name)
	for _, frame := range []*fleetv1.SessionResponse{got, want} {
		if d := frame.GetDeliver(); d != nil {
			d.Traceparent = "" // nothing is traced here
		}
	}
	if versions := kept.Versions(a.t); a.version == versions[len(versions)-1] && !proto.Equal(got, want) {
		a.t.Errorf("the hub says %v, want %v", got, want)
	}
	if fmt.Sprintf("%T", got.GetFrame()) != fmt.Sprintf("%T", want.GetFrame()) {
		a.t.Fatalf("the hub says %v, want %v", got, want)
	}
}

// An agent of every version, and one that says more than this hub knows, has a whole
// session, in which every frame does what it always did.
func TestKept_EveryVersionsAgentIsServed(t *testing.T) {
	for _, version := range kept.Versions(t) {
		for name, newer := range map[string]bool{version: false, version + ", with what came later": true} {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, nil)
				playKept(t, s, &keptAgent{spoke: s.open(t, "prod", time.Hour), version: version, newer: newer})
			})
		}
	}
}

func playKept(t *testing.T, s *site, a *keptAgent) {
	t.Helper()
	if err := a.stream.Send(a.frame("hello")); err != nil {
		t.Fatal(err)
	}
	if got := a.next().GetWelcome().GetProtocolVersion(); got != 1 {
		t.Fatalf("the session speaks version %d", got)
	}
	for _, name := range []string{"inventory-first", "inventory-last", "keys", "heartbeat"} {
		a.says(name)
	}
	for _, want := range []*v1alpha1.DynamicConfigRender{keptWeb(1), keptDB()} {
		if diff := cmp.Diff(want, s.mirror.get(want.Namespace+"/"+want.Name)); diff != "" {
			t.Error(diff)
		}
	}

	answerKept(s, "web", keptAnswer(1, "content-of-web"))
	a.hears("deliver")
	a.says("result-applied")
	answerKept(s, "db", keptAnswer(7, "content-of-db")) // its target has that
	a.hears("current")
	refused := keptAnswer(7, "")
	refused.Refusal = &fleet.Refusal{ReadyReason: "RenderFailed", CauseCondition: "Fetched", CauseReason: "DocumentNotFound", Message: "fetch secret/postgres: absent"}
	answerKept(s, "db", refused)
	a.hears("refusal")

	a.says("upsert")
	if diff := cmp.Diff(keptWeb(2), s.mirror.get("shop/web")); diff != "" {
		t.Error(diff)
	}
	answerKept(s, "web", keptAnswer(2, "content-of-web-2"))
	a.next()
	a.says("result-rejected")
	if report, _ := s.fleet.Report("prod"); report.Counts != (fleet.Counts{Total: 2, Failed: 2}) {
		t.Errorf("counts %+v", report.Counts)
	}
	a.says("remove")
	if diff := cmp.Diff([]string{"shop/db@7"}, s.mirror.lines()); diff != "" {
		t.Error(diff)
	}
	if err := a.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := a.verdict(); got != (spoketest.Verdict{}) {
		t.Errorf("verdict %+v", got)
	}
}

// answerKept has the hub answer a Render of the kept inventory.
func answerKept(s *site, name string, a fleet.Answer) {
	a.UID = map[string]string{"web": webUID, "db": dbUID}[name]
	s.fleet.Deliver("prod", fleet.ID{Namespace: "shop", Name: name}, a)
}

func keptAnswer(generation int64, id string) fleet.Answer {
	version := map[string]string{"content-of-web": "42", "content-of-db": "3"}[id]
	a := fleet.Answer{Generation: generation, HandledSync: "2026-03-01T12:00:00Z"}
	if id != "" {
		a.Content = &fleet.Content{ID: []byte(id), SourceVersion: version, Data: map[string][]byte{"config.json": []byte(`{"colour":"red"}`)}}
	}
	return a
}

const (
	webUID = "0c9d4b2e-6f1a-4c53-9a55-000000000001"
	dbUID  = "0c9d4b2e-6f1a-4c53-9a55-000000000002"
)

// keptWeb and keptDB are the Renders of the kept inventory.
func keptWeb(generation int64) *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: webUID, Generation: generation},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "team", ClassKind: v1alpha1.ClassKindNamespaced, Key: "shop/web.json", IntervalSeconds: ptr.To[int32](15),
			Target: v1alpha1.RenderTarget{ConfigMap: "web", Shape: v1alpha1.ShapeFile, File: "config.json"},
		},
	}
}

func keptDB() *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "db", UID: dbUID, Generation: 7,
			Annotations: map[string]string{v1alpha1.AnnotationSyncRequestedAt: "2026-03-01T12:00:00Z"},
		},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "platform-vault", ClassKind: v1alpha1.ClassKindCluster, Key: "secret/postgres", Format: v1alpha1.FormatJSON, Section: "db",
			IntervalSeconds: ptr.To[int32](30), Suspend: true,
			Target: v1alpha1.RenderTarget{Secret: "pg", Shape: v1alpha1.ShapeEntries},
		},
	}
}
