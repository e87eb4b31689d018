package spoke_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// line is the agent's only way to its API server.
type line struct {
	mu    sync.Mutex // guards what follows
	away  bool
	conns []net.Conn
}

// lead has an agent use the line.
func (l *line) lead(f *fixture) {
	f.config.REST = rest.CopyConfig(f.config.REST)
	f.config.REST.Dial = l.dial
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// cut ends every connection and lets none open, as when the server's process ends.
func (l *line) cut(f *fixture) {
	f.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	for _, conn := range l.conns {
		f.must(conn.Close())
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

// While the whole API server is away, neither a target nor a status can be written. The
// hub is asked again for each of hundreds of Renders at its own pace all the same, and
// each is current, and says so, as soon after the return as a single one would be:
// ten a second for all together would take minutes.
func TestRun_AnOutageOfTheAPIServerIsOverForHundredsOfRendersAsForOne(t *testing.T) {
	const n, asks, patience = 500, 4, 150 * time.Second
	l := &line{}
	f := newFixture(t, l.lead)
	f.SetDefaultEventuallyTimeout(patience)
	f.SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	f.store.Set("doc", "a", "1")
	for i := range n {
		f.render(fmt.Sprint("r-", i), into(fmt.Sprint("target-", i)))
	}
	f.Eventually(func() int { return len(f.rendered("1")) }).Should(gomega.Equal(n))
	before, sent := f.rendered("1"), f.store.Delivered()

	l.cut(f)
	f.store.Set("doc", "a", "2")
	f.Eventually(f.store.Delivered).Should(gomega.BeNumerically(">=", sent+n*(1+asks)), "the hub is not asked again")
	if holding := len(f.rendered("1")); holding != n {
		t.Errorf("%d targets hold what they held, want %d", holding, n)
	}
	l.mend()
	f.Eventually(func() int { return len(f.rendered("2")) }).Should(gomega.Equal(n), "Renders whose target is current and that say so")
	for name, r := range f.rendered("2") {
		if r.Status.RenderedAt.Equal(before[name].Status.RenderedAt) {
			t.Errorf("%s says that its target changed at %s, as before the outage", name, r.Status.RenderedAt)
		}
	}
}

// rendered are the Renders that say that they are, by name, and whose target holds a.
func (f *fixture) rendered(a string) map[string]v1alpha1.DynamicConfigRender {
	f.Helper()
	var renders v1alpha1.DynamicConfigRenderList
	var secrets corev1.SecretList
	for _, list := range []client.ObjectList{&renders, &secrets} {
		f.must(cluster.Client.List(f.Context(), list, client.InNamespace(f.namespace)))
	}
	held := map[string]string{}
	for i := range secrets.Items {
		held[secrets.Items[i].Name] = string(secrets.Items[i].Data["a"])
	}
	all := map[string]v1alpha1.DynamicConfigRender{}
	for _, r := range renders.Items {
		if held[r.Spec.Target.Secret] == a && apimeta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady) {
			all[r.Name] = r
		}
	}
	return all
}
