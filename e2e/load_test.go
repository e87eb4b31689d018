package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/fakespoke"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// crowd is many fake spokes of the hub that runs.
type crowd struct {
	tally  fakespoke.Tally
	spokes []*fakespoke.Spoke
	total  int
}

// join registers spokes and holds their sessions until the test ends. Each wants the
// same Renders.
func join(t *testing.T, name string, spokes int, delivered func(*fleetv1.Deliver), specs ...*fleetv1.RenderSpec) *crowd {
	t.Helper()
	signer, err := fakespoke.NewSigner(t.Context(), fleet.Hub.Client, stage.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{total: spokes * len(specs)}
	running, stop := context.WithCancel(t.Context())
	group, running := errgroup.WithContext(running)
	t.Cleanup(func() {
		stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		all := &v1alpha1.SpokeCluster{}
		if err := fleet.Hub.Client.DeleteAllOf(context.WithoutCancel(t.Context()), all, client.MatchingLabels{"crowd": name}); err != nil {
			t.Error(err)
		}
	})
	for n := range spokes {
		cluster := &v1alpha1.SpokeCluster{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, n), Labels: map[string]string{"crowd": name}},
			Spec:       v1alpha1.SpokeClusterSpec{Accepted: true},
		}
		create(t, fleet.Hub.Cluster, cluster)
		tls, err := signer.Client(cluster.Name)
		if err != nil {
			t.Fatal(err)
		}
		own := make([]*fleetv1.RenderSpec, 0, len(specs))
		for _, spec := range specs {
			own = append(own, proto.CloneOf(spec))
		}
		s := fakespoke.New(fakespoke.Config{Address: fleet.Hub.Address, TLS: tls, Renders: own, Tally: &c.tally, Delivered: delivered})
		c.spokes = append(c.spokes, s)
		group.Go(func() error { return s.Run(running) })
	}
	return c
}

// until waits for counts.
func (c *crowd) until(t *testing.T, what string, enough func(fakespoke.Counts) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.tally.Until(ctx, enough); err != nil {
		t.Fatalf("%s: %v; seen: %+v", what, err, c.tally.Counts())
	}
}

// areCurrent waits until every Render has an answer in a session that is open.
func (c *crowd) areCurrent(t *testing.T) {
	t.Helper()
	c.until(t, "all are current", func(n fakespoke.Counts) bool { return n.Answered == c.total })
}

// wants is a Render of a fake spoke.
func wants(name, class, key string) *fleetv1.RenderSpec {
	return &fleetv1.RenderSpec{
		Ref:        &fleetv1.RenderRef{Namespace: "crowd", Name: name, Uid: "uid-" + name},
		Generation: 1, Class: class, ClassKind: fleetv1.ClassKind_CLASS_KIND_CLUSTER, Key: key,
		Interval: durationpb.New(aDay * 1e9),
		Target:   &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_SECRET, Name: name, Shape: fleetv1.Shape_SHAPE_ENTRIES},
	}
}

// usage is what the hub process uses.
func usage(t *testing.T) stage.Usage {
	t.Helper()
	u, err := fleet.Hub.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// agentsAreConnected waits until the hub holds the sessions of the agents, and no other:
// those of an earlier test are over.
func agentsAreConnected(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() int { return metric(t, fleet.Hub.Replicas[0], "dynamicconfig_hub_sessions") }).
		WithTimeout(patience).Should(gomega.Equal(len(fleet.Spokes)))
}

// figures are what the hub process uses, to be read.
func figures(u stage.Usage) string {
	return fmt.Sprintf("%.0f goroutines, %.0f descriptors, heap %.1f MiB, resident %.1f MiB", u.Goroutines, u.Files, u.Heap/(1<<20), u.Memory/(1<<20))
}

func TestLoad_TwoThousandReconnectsLeaveNothingBehind(t *testing.T) {
	const spokes, rounds = 200, 10
	putConsul(t, "reconnects/app.json", `{"colour":"red"}`)
	consulClass(t, "reconnects", "reconnects/", countRequests(t))
	agentsAreConnected(t)
	c := join(t, "reconnects", spokes, nil, wants("one", "reconnects", "reconnects/app.json"))
	c.areCurrent(t)
	before := usage(t)
	for range rounds {
		for _, s := range c.spokes {
			s.Bounce()
		}
		c.until(t, "all sessions end", func(n fakespoke.Counts) bool { return n.Answered < c.total })
		c.areCurrent(t)
	}
	if sent := c.tally.Counts().Deliveries; sent != c.total {
		t.Errorf("%d documents were sent, want each once: %d", sent, c.total)
	}
	var after stage.Usage
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		after = usage(t)
		// Some room for what is under way at the moment of looking.
		g.Expect(after.Goroutines).To(gomega.BeNumerically("<=", before.Goroutines+spokes/2), "goroutines")
		g.Expect(after.Files).To(gomega.BeNumerically("<=", before.Files+spokes/10), "file descriptors")
		g.Expect(after.Heap).To(gomega.BeNumerically("<=", before.Heap+32<<20), "heap")
	}).WithTimeout(patience).Should(gomega.Succeed(), "before %+v", before)
	t.Logf("%d sessions of %d spokes, %d documents sent\n  before: %s\n  after:  %s", spokes*(rounds+1), spokes, c.tally.Counts().Deliveries, figures(before), figures(after))
}

func TestLoad_ARollOutOfTheHubMovesFiveHundredSpokes(t *testing.T) {
	const spokes = 500
	putConsul(t, "rollout/app.json", `{"colour":"red"}`)
	consulClass(t, "rollout", "rollout/", countRequests(t))
	c := join(t, "rollout", spokes, nil, wants("one", "rollout", "rollout/app.json"), wants("two", "rollout", "rollout/app.json"))
	c.areCurrent(t)
	agents := epochs(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fleet.Hub.Terminate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Hub.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.areCurrent(t) // within 90 s, or the test fails
	reconnected(t, agents)
	if sent := c.tally.Counts().Deliveries; sent != c.total {
		t.Errorf("%d documents were sent, want each once: %d", sent, c.total)
	}
}

func TestLoad_ASpokeThatDoesNotReadDelaysNobodyAndIsCut(t *testing.T) {
	const large, size = 30, 400 << 10 // more than the hub sends unanswered
	consulClass(t, "stall", "stall/", countRequests(t))
	putConsul(t, "stall/small.json", `{"round":"0"}`)
	specs := make([]*fleetv1.RenderSpec, 0, large)
	for n := range large {
		key := fmt.Sprintf("stall/large-%d.json", n)
		putConsul(t, key, fmt.Sprintf(`{"filler":%q}`, strings.Repeat("x", size)))
		specs = append(specs, wants(fmt.Sprint("large-", n), "stall", key))
	}
	stalled := make(chan struct{})
	slow := join(t, "stall-slow", 1, func(*fleetv1.Deliver) { <-stalled }, specs...)
	t.Cleanup(func() { close(stalled) }) // before the spoke is waited for
	seen := make(chan string, 100)
	quick := join(t, "stall-quick", 1, func(d *fleetv1.Deliver) { seen <- string(d.GetData()["round"]) }, wants("small", "stall", "stall/small.json"))
	quick.areCurrent(t)
	before := usage(t)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 1; n <= 10; n++ {
		putConsul(t, "stall/small.json", fmt.Sprintf(`{"round":"%d"}`, n))
		for got := ""; got != fmt.Sprint(n); {
			select {
			case got = <-seen:
			case <-ctx.Done():
				t.Fatalf("round %d did not arrive beside a spoke that does not read", n)
			}
		}
	}
	gomega.NewWithT(t).Eventually(func() string {
		cluster := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: "stall-slow-0"}}
		if err := fleet.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err.Error()
		}
		for _, condition := range cluster.Status.Conditions {
			if condition.Type == v1alpha1.ConditionConnected {
				return condition.Reason
			}
		}
		return ""
	}).WithTimeout(patience).Should(gomega.Equal(v1alpha1.ReasonDisconnected), "the session was not cut")
	if n := slow.tally.Counts().Deliveries; n != 0 {
		t.Errorf("%d deliveries were taken by a spoke that does not read", n)
	}
	t.Logf("the hub\n  before: %s\n  after:  %s", figures(before), figures(usage(t)))
}

// What a hub runs at once grows with clusters and documents, never with Renders. Another
// test may have restarted the hub just now: what it runs for the agents may not all be
// there yet, and is far from a tenth of a goroutine for each Render.
func TestLoad_RendersTakeNoGoroutine(t *testing.T) {
	const renders, most = 4_000, 400
	putConsul(t, "bounded/app.json", `{"colour":"red"}`)
	consulClass(t, "bounded", "bounded/", countRequests(t))
	specs := make([]*fleetv1.RenderSpec, 0, renders)
	for n := range renders {
		specs = append(specs, wants(fmt.Sprint("r-", n), "bounded", "bounded/app.json"))
	}
	before := usage(t)
	c := join(t, "bounded", 1, nil, specs...)
	c.areCurrent(t)
	var after stage.Usage
	gomega.NewWithT(t).Eventually(func() float64 {
		after = usage(t)
		return after.Goroutines
	}).WithTimeout(patience).Should(gomega.BeNumerically("<=", before.Goroutines+most))
	t.Logf("%d Renders of a cluster, of one document\n  before: %s\n  after:  %s", renders, figures(before), figures(after))
}
