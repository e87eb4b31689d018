package spoke_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testenv"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
)

// idle is how long an agent at rest is watched; docs/performance.md has the figures of
// ten minutes.
var idle = flag.Duration("idle", time.Minute, "how long BenchmarkAgent_Idle watches an agent at rest")

// benchPatience is how long a bench waits for thousands of Renders.
const benchPatience = 10 * time.Minute

// writers is how many requests are under way at once: as many as the agent's workers.
const writers = 8

// bench is an agent as a process of its own, a namespace and a hub.
type bench struct {
	*testing.B
	*gomega.WithT
	namespace string
	store     *hubtest.Store
	args      []string
	dir       string
	metrics   string
	agent     *testenv.Program
}

func newBench(b *testing.B) *bench {
	b.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	if err := cluster.Client.Create(b.Context(), ns); err != nil {
		b.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: v1alpha1.DefaultSpokeServiceAccount}}
	if err := cluster.Client.Create(b.Context(), account); err != nil {
		b.Fatal(err)
	}
	hub := hubtest.Start(b, hubtest.Settings{UnknownKeys: true})
	t := &bench{B: b, WithT: gomega.NewWithT(b), namespace: ns.Name, store: hubtest.Serve(b, hub), dir: b.TempDir()}
	t.SetDefaultEventuallyTimeout(benchPatience)
	t.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	t.store.Set("doc", "host", "db.example", "port", "5432", "user", "app", "password", "canary-bench", "options", "sslmode=require")
	token := filepath.Join(t.dir, "token")
	t.must(os.WriteFile(token, []byte(hubtest.Token), 0o600))
	ports, err := testenv.FreePorts(b.Context(), 1)
	t.must(err)
	t.metrics = "http://127.0.0.1:" + ports[0] + "/metrics"
	t.args = []string{
		"--kubeconfig=" + cluster.Kubeconfig, "--namespace=" + ns.Name, "--cluster=bench",
		"--hub-address=" + hub.Address, "--hub-ca-file=" + hub.CAFile, "--join-token-file=" + token,
		"--metrics-bind-address=127.0.0.1:" + ports[0], "--health-probe-bind-address=0", "--watch-namespaces=" + ns.Name,
	}
	return t
}

// start builds and starts the agent as it is released.
func (t *bench) start() {
	t.Helper()
	binary := filepath.Join(t.dir, "spoke")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", binary, "dynamic-config.rs/fleet/cmd/spoke")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	info, err := os.Stat(binary)
	t.must(err)
	t.ReportMetric(float64(info.Size())/1e6, "MB-binary")
	t.agent, err = testenv.StartProgram(t.Context(), t.dir, "agent", binary, t.args...)
	t.must(err)
	t.Cleanup(t.agent.Kill)
	t.Eventually(t.store.Session).ShouldNot(gomega.BeNil())
}

// renders creates Renders number from up to below to, each with a target of its own.
func (t *bench) renders(from, to int) {
	t.Helper()
	t.must(inParallel(t.Context(), from, to, func(ctx context.Context, i int) error {
		return cluster.Client.Create(ctx, &v1alpha1.DynamicConfigRender{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: fmt.Sprint("render-", i)},
			Spec: v1alpha1.DynamicConfigRenderSpec{
				Class: "store", Key: "doc", Target: v1alpha1.RenderTarget{Secret: fmt.Sprint("target-", i), Shape: v1alpha1.ShapeEntries},
			},
		})
	}))
}

// ready waits until all of n Renders are.
func (t *bench) ready(n int) {
	t.Helper()
	t.Eventually(func() int { return len(t.store.Results()) }).Should(gomega.BeNumerically(">=", n))
	t.Eventually(func() int {
		var all v1alpha1.DynamicConfigRenderList
		t.must(cluster.Client.List(t.Context(), &all, client.InNamespace(t.namespace)))
		ready := 0
		for i := range all.Items {
			if apimeta.IsStatusConditionTrue(all.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
		return ready
	}).Should(gomega.Equal(n))
}

// inParallel calls do for each number, as many at once as the agent.
func inParallel(ctx context.Context, from, to int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := from; i < to; i++ {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// rss is a line of the agent's /proc/PID/status, in MiB.
func (t *bench) rss(line string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.agent.PID()))
	t.must(err)
	_, after, _ := strings.Cut(string(text), line+":")
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	t.must(err)
	return kib / 1024
}

// requests are the agent's requests to the API server so far, by method.
func (t *bench) requests() map[string]float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, t.metrics, http.NoBody)
	t.must(err)
	response, err := http.DefaultClient.Do(request)
	t.must(err)
	defer response.Body.Close()
	counts := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "rest_client_requests_total{"); ok {
			_, method, _ := strings.Cut(rest, `method="`)
			method, _, _ = strings.Cut(method, `"`)
			_, value, _ := strings.Cut(rest, "} ")
			n, err := strconv.ParseFloat(value, 64)
			t.must(err)
			counts[method] += n
		}
	}
	return counts
}

func (t *bench) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkAgent_Memory prints the resident memory with 0, 1,000 and 5,000 Renders, at
// rest, and the most that it ever was.
func BenchmarkAgent_Memory(b *testing.B) {
	t := newBench(b)
	t.start()
	had := 0
	for _, n := range []int{0, 1000, 5000} {
		t.renders(had, n)
		t.ready(n)
		had = n
		<-time.After(30 * time.Second)
		b.Logf("%d Renders: RSS %.1f MiB (anonymous %.1f), at most %.1f", n, t.rss("VmRSS"), t.rss("RssAnon"), t.rss("VmHWM"))
		t.ReportMetric(t.rss("VmRSS"), fmt.Sprintf("MiB-at-%d", n))
	}
}

// BenchmarkAgent_Idle prints what an agent at rest with 1,000 Renders asks of the API
// server.
func BenchmarkAgent_Idle(b *testing.B) {
	t := newBench(b)
	t.start()
	t.renders(0, 1000)
	t.ready(1000)
	<-time.After(30 * time.Second) // for events and the last news of watches
	before := t.requests()
	<-time.After(*idle)
	after := t.requests()
	writes := 0.0
	for method, n := range after {
		b.Logf("%s in %s: %.0f", method, *idle, n-before[method])
		if method != http.MethodGet {
			writes += n - before[method]
		}
	}
	t.ReportMetric(writes, "writes")
}

// BenchmarkAgent_Repair prints how long a target that is edited, or deleted, stays so.
func BenchmarkAgent_Repair(b *testing.B) {
	const n = 20
	t := newBench(b)
	t.start()
	t.renders(0, n)
	t.ready(n)
	var total, longest time.Duration
	for i := range n {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: t.namespace, Name: fmt.Sprint("target-", i)}
		t.must(cluster.Client.Get(b.Context(), key, secret))
		began := time.Now()
		if i%2 == 0 {
			t.must(cluster.Client.Delete(b.Context(), secret))
		} else {
			secret.Data["host"] = []byte("edited")
			t.must(cluster.Client.Update(b.Context(), secret, client.FieldOwner("bench")))
		}
		t.Eventually(func() string {
			now := &corev1.Secret{}
			t.must(client.IgnoreNotFound(cluster.Client.Get(b.Context(), key, now)))
			return string(now.Data["host"])
		}).WithPolling(time.Millisecond).Should(gomega.Equal("db.example"))
		took := time.Since(began)
		total, longest = total+took, max(longest, took)
	}
	t.ReportMetric(total.Seconds()/n, "s-to-repair")
	t.ReportMetric(longest.Seconds(), "s-at-most")
}

// BenchmarkAgent_Throughput prints how fast 5,000 new Renders are ready, and how fast a
// loop is that does no more than the writes that are needed, on the same API server,
// before and after.
func BenchmarkAgent_Throughput(b *testing.B) {
	const n = 5000
	loop := newBench(b)
	loop.renders(0, n)
	applied, reported := loop.bare(n, "before", false), loop.bare(n, "before-status", true)

	t := newBench(b)
	t.renders(0, n)
	t.start()
	began := time.Now()
	t.ready(n)
	agent := time.Since(began)
	b.Logf("requests by the agent: %v", t.requests())
	t.agent.Kill()

	applied = (applied + loop.bare(n, "after", false)) / 2
	reported = (reported + loop.bare(n, "after-status", true)) / 2
	b.Logf("%d targets applied in a bare loop: %s; with their statuses: %s; by the agent: %s", n, applied, reported, agent)
	t.ReportMetric(n/agent.Seconds(), "Renders/s")
	t.ReportMetric(applied.Seconds()/agent.Seconds(), "of-bare-apply")
	t.ReportMetric(reported.Seconds()/agent.Seconds(), "of-bare-apply-and-status")
}

// bare applies n targets as the agent would, their names ending in suffix, and answers
// how long that took.
func (t *bench) bare(n int, suffix string, withStatus bool) time.Duration {
	t.Helper()
	all := &v1alpha1.DynamicConfigRenderList{}
	t.must(cluster.Client.List(t.Context(), all, client.InNamespace(t.namespace)))
	began := time.Now()
	t.must(inParallel(t.Context(), 0, n, func(ctx context.Context, i int) error {
		r := &all.Items[i]
		secret := corev1ac.Secret(r.Spec.Target.Secret+"-"+suffix, t.namespace).WithType(corev1.SecretTypeOpaque).
			WithLabels(map[string]string{v1alpha1.LabelRenderUID: string(r.UID), v1alpha1.LabelManagedBy: "bench"}).
			WithAnnotations(map[string]string{v1alpha1.AnnotationRender: r.Name, v1alpha1.AnnotationContentID: strings.Repeat("ab", 32)}).
			WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("DynamicConfigRender").
				WithName(r.Name).WithUID(r.UID).WithController(true)).
			WithData(map[string][]byte{"host": []byte("db.example"), "port": []byte("5432"), "user": []byte("app"), "password": []byte("x"), "options": []byte("y")})
		if err := cluster.Client.Apply(ctx, secret, client.FieldOwner("bench")); err != nil || !withStatus {
			return err
		}
		for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionFetched, v1alpha1.ConditionApplied} {
			apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
				Type: condition, Status: metav1.ConditionTrue, Reason: "Bench", Message: "The target holds " + suffix,
			})
		}
		r.Status.ObservedGeneration = r.Generation
		return cluster.Client.Status().Update(ctx, r, client.FieldOwner("bench"))
	}))
	return time.Since(began)
}
