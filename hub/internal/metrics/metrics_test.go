package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/metrics"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/internal/metricstest"
	"dynamic-config.rs/fleet/internal/testenv"
)

// samples are the series of collectors that begin with a name, in Prometheus's text.
func samples(t *testing.T, name string, collectors ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metricstest.Lint(t, families)
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, name) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

const (
	platform = "ClusterDynamicConfigClass/platform"
	team     = "DynamicConfigClass/team-a/own"
)

var accepted = v1alpha1.SpokeClusterSpec{Accepted: true}

func ready(status metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
}

func cluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithObjects(objects...).Build()
}

func TestObjects_ShowsWhatTheObjectsSay(t *testing.T) {
	hub := cluster(t,
		&v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: accepted, Status: v1alpha1.SpokeClusterStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue}},
		}},
		&v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}, Spec: accepted}, // never connected
		&v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "suspended"}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true, Suspend: true}},
		&v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "waits"}},
		&v1alpha1.ClusterDynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Name: "platform"}, Status: v1alpha1.ClassStatus{
			Conditions: ready(metav1.ConditionTrue), Renders: &v1alpha1.RenderCounts{Total: 7, Ready: 4, Failed: 1},
		}},
		&v1alpha1.DynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "own"}, Status: v1alpha1.ClassStatus{
			Conditions: ready(metav1.ConditionFalse),
		}},
		&v1alpha1.DynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "new"}}, // not looked at yet
	)
	want := `dynamicconfig_hub_class_ready{class="ClusterDynamicConfigClass/platform"} 1
dynamicconfig_hub_class_ready{class="DynamicConfigClass/team-a/own"} 0
dynamicconfig_hub_class_renders{class="ClusterDynamicConfigClass/platform",state="failed"} 1
dynamicconfig_hub_class_renders{class="ClusterDynamicConfigClass/platform",state="ready"} 4
dynamicconfig_hub_class_renders{class="ClusterDynamicConfigClass/platform",state="waiting"} 2
dynamicconfig_hub_spoke_connected{cluster="east"} 1
dynamicconfig_hub_spoke_connected{cluster="west"} 0
`
	if diff := cmp.Diff(want, samples(t, "dynamicconfig_hub_", metrics.NewObjects(t.Context(), hub, metrics.NewStores()))); diff != "" {
		t.Error(diff)
	}
}

// A series ends with its object: those that are counted too, and those of an answer
// that comes when the class is gone already.
func TestObjects_ASeriesEndsWithItsObject(t *testing.T) {
	east := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: accepted}
	class := &v1alpha1.ClusterDynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Name: "platform"}, Status: v1alpha1.ClassStatus{Conditions: ready(metav1.ConditionTrue)}}
	own := &v1alpha1.DynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "own"}}
	hub, stores := cluster(t, east, class, own), metrics.NewStores()
	objects := metrics.NewObjects(t.Context(), hub, stores)
	ask := func() {
		for _, id := range []string{platform, team} {
			stores.Answered(id, nil)
			stores.Fetched(id, time.Second)
		}
	}
	ask()
	for _, name := range []string{`class="` + platform, `class="` + team, `cluster="east`} {
		if all := samples(t, "dynamicconfig_", objects); !strings.Contains(all, name) {
			t.Errorf("nothing of %s in\n%s", name, all)
		}
	}
	for _, o := range []client.Object{east, class} {
		if err := hub.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		all := samples(t, "dynamicconfig_", objects)
		if strings.Contains(all, platform) || strings.Contains(all, "east") || !strings.Contains(all, team) {
			t.Errorf("left are\n%s", all)
		}
		ask()
	}
}

// A cache that cannot be read yet costs the scrape what is read of it, and nothing else.
func TestObjects_WithoutACache(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stores := metrics.NewStores()
	stores.Answered(platform, nil)
	got := samples(t, "dynamicconfig_", metrics.NewObjects(ended, unread{}, stores))
	if want := `dynamicconfig_hub_store_requests_total{class="ClusterDynamicConfigClass/platform",result="ok"} 1` + "\n"; got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// unread is a cache that is not filled.
type unread struct{ client.Reader }

func (unread) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return ctx.Err()
}

func TestStores_CountByResult(t *testing.T) {
	stores := metrics.NewStores()
	for _, err := range []error{
		nil, nil,
		&store.Error{Reason: v1alpha1.ReasonStoreSealed, Err: errors.New("canary")},
		&store.Error{Reason: v1alpha1.ReasonDocumentNotFound},
		errors.New("canary"),
	} {
		stores.Answered(platform, err)
	}
	hub := cluster(t, &v1alpha1.ClusterDynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Name: "platform"}})
	want := `dynamicconfig_hub_store_requests_total{class="ClusterDynamicConfigClass/platform",result="DocumentNotFound"} 1
dynamicconfig_hub_store_requests_total{class="ClusterDynamicConfigClass/platform",result="Other"} 1
dynamicconfig_hub_store_requests_total{class="ClusterDynamicConfigClass/platform",result="StoreSealed"} 1
dynamicconfig_hub_store_requests_total{class="ClusterDynamicConfigClass/platform",result="ok"} 2
`
	if diff := cmp.Diff(want, samples(t, "dynamicconfig_hub_store_requests", metrics.NewObjects(t.Context(), hub, stores))); diff != "" {
		t.Error(diff)
	}
}

func TestDeliveries_TimeTheChangesThatWereApplied(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		result  string
		changed time.Time
		counted string
	}{
		"a change that is applied":        {"applied", now.Add(-time.Hour), "1"},
		"one that was there already":      {"unchanged", now.Add(-time.Hour), "1"},
		"one that is not":                 {"failed", now.Add(-time.Hour), "0"},
		"what no change was the cause of": {"applied", time.Time{}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := metrics.NewDeliveries()
			d.Delivered(tc.result, tc.changed)
			if got := samples(t, "dynamicconfig_hub_change_to_applied_seconds_count", d); !strings.HasSuffix(got, " "+tc.counted+"\n") {
				t.Errorf("got %s", got)
			}
			if got := samples(t, `dynamicconfig_hub_delivery_results_total{result="`+tc.result, d); !strings.HasSuffix(got, " 1\n") {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestSessions_ShowWhatTheyHold(t *testing.T) {
	clusters := fleet.New(fleet.Config{})
	ends := map[string]time.Time{"east": time.Unix(1_700_000_000, 0)}
	sessions := metrics.NewSessions(clusters, func() map[string]time.Time { return ends })
	session, err := clusters.Connect("east", 1, "a")
	if err != nil {
		t.Fatal(err)
	}
	session.Replace([]fleet.Spec{{ID: fleet.ID{Namespace: "a", Name: "b"}, UID: "1"}, {ID: fleet.ID{Namespace: "a", Name: "c"}, UID: "2"}})
	clusters.Deliver("east", fleet.ID{Namespace: "a", Name: "b"}, fleet.Answer{UID: "1", Refusal: &fleet.Refusal{}})
	if _, err := session.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `dynamicconfig_hub_renders{state="failed"} 1
dynamicconfig_hub_renders{state="ready"} 0
dynamicconfig_hub_renders{state="waiting"} 1
dynamicconfig_hub_spoke_certificate_expiry_timestamp_seconds{cluster="east"} 1.7e+09
`
	if diff := cmp.Diff(want, samples(t, "dynamicconfig_", sessions)); diff != "" {
		t.Error(diff)
	}
	clusters.Detach(session)
	if got := samples(t, "dynamicconfig_hub_renders", sessions); strings.Contains(got, " 1\n") {
		t.Errorf("Renders of a session that is over: %s", got)
	}
}
