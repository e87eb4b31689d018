package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// apart are a replica of the hub and the agent of east, each in a network of its own, and
// the cable between them.
type apart struct {
	hubSide, agentSide *testenv.Namespace
	hub, agent         *testenv.Program
}

// networks are two networks with a cable between them, or nil where this machine does
// not make network namespaces for us.
func networks(t *testing.T) *apart {
	t.Helper()
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is not on this machine", program)
			return nil
		}
	}
	p := &apart{}
	for _, side := range []**testenv.Namespace{&p.hubSide, &p.agentSide} {
		n, err := testenv.NewNamespace(t.Context())
		if err != nil {
			t.Logf("no network namespaces on this machine: %v", err)
			return nil
		}
		t.Cleanup(n.Close)
		*side = n
	}
	if err := testenv.Cable(t.Context(), p.hubSide, p.agentSide); err != nil {
		t.Fatal(err)
	}
	return p
}

// letIn leads the hosts of URLs into a namespace until the test ends.
func letIn(t *testing.T, n *testenv.Namespace, urls ...string) {
	t.Helper()
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := n.LetIn(t.Context(), u.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Stop)
	}
}

const (
	apartReplica = "hub-apart"
	apartPort    = ":8443"
	apartMetrics = "127.0.0.1:8080"
)

// start starts the replica, and the agent in place of the one that ran.
func (p *apart) start(t *testing.T, east *stage.Spoke) {
	t.Helper()
	hub, err := fleet.Hub.ServiceAccountKubeconfig(t.Context(), stage.Namespace, "dynamic-config-hub")
	if err != nil {
		t.Fatal(err)
	}
	p.hub = program(t, p.hubSide, "hub", slices.Concat([]string{
		"--kubeconfig=" + hub, "--namespace=" + stage.Namespace, "--replica=" + apartReplica, "--listen-address=" + testenv.CableFrom + apartPort,
		"--metrics-bind-address=" + apartMetrics, "--health-probe-bind-address=0", "--audit-log=off",
	}, stage.TestHubArgs()))
	agent, err := east.ServiceAccountKubeconfig(t.Context(), stage.Namespace, "dynamic-config-spoke")
	if err != nil {
		t.Fatal(err)
	}
	ca, err := fleet.Hub.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, []byte(ca), 0o600); err != nil {
		t.Fatal(err)
	}
	east.Kill()
	t.Cleanup(func() { restart(t, east) })
	p.agent = program(t, p.agentSide, "spoke", slices.Concat([]string{
		"--kubeconfig=" + agent, "--namespace=" + stage.Namespace, "--cluster=" + east.Name, "--hub-address=" + testenv.CableFrom + apartPort,
		"--hub-ca-file=" + caFile, "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, stage.TestSpokeArgs()))
}

// restart starts the agent again when the test, and so its context, is over.
func restart(t *testing.T, east *stage.Spoke) {
	t.Helper()
	if err := east.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// program runs one of the product's programs in a namespace until the test ends.
func program(t *testing.T, n *testenv.Namespace, name string, args []string) *testenv.Program {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join("..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	path, all := n.Enter(binary, args...)
	p, err := testenv.StartProgram(t.Context(), t.TempDir(), name, path, all...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// noticed is how often a program said that the other side was silent.
func noticed(t *testing.T, p *testenv.Program, words string) int {
	t.Helper()
	log, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(log, []byte(words))
}

// deliveries is how many the replica sent.
func (p *apart) deliveries(t *testing.T) int {
	t.Helper()
	inside := &http.Transport{DialContext: p.hubSide.Dial}
	defer inside.CloseIdleConnections()
	return metricAt(t, &http.Client{Transport: inside}, "http://"+apartMetrics+"/metrics", "dynamicconfig_hub_deliveries_total")
}

// silences are ways in which packets vanish without a word to either side.
var silences = map[string]struct{ strike, heal [][]string }{
	"the cable is pulled": {
		strike: [][]string{{"link", "set", "cable", "down"}},
		heal:   [][]string{{"link", "set", "cable", "up"}},
	},
	// They leave for a card that is not there; the link looks fine.
	"packets vanish on the way": {
		strike: [][]string{
			{"neighbour", "replace", testenv.CableFrom, "lladdr", "02:00:00:00:00:01", "dev", "cable", "nud", "permanent"},
			{"neighbour", "replace", testenv.CableTo, "lladdr", "02:00:00:00:00:01", "dev", "cable", "nud", "permanent"},
		},
		heal: [][]string{
			{"neighbour", "delete", testenv.CableFrom, "dev", "cable"},
			{"neighbour", "delete", testenv.CableTo, "dev", "cable"},
		},
	},
}

// all runs commands of ip on both sides.
func (p *apart) all(t *testing.T, commands [][]string) {
	t.Helper()
	for _, command := range commands {
		for _, side := range []*testenv.Namespace{p.hubSide, p.agentSide} {
			if err := side.IP(t.Context(), command...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Neither side's kernel says anything of a network that drops all packets. Both sides
// notice by their heartbeats, and when it is back nothing is sent that did not change.
// There is no such test where there are no such networks.
func TestReplicas_BothSidesNoticeANetworkThatDropsEverything(t *testing.T) {
	p := networks(t)
	if p == nil {
		return
	}
	through := countRequests(t)
	putConsul(t, "partition/quiet.json", `{"colour":"red"}`)
	putConsul(t, "partition/moving.json", `{"colour":"red"}`)
	consulClass(t, "partition", "partition/", through)
	east := fleet.Spoke("east")
	letIn(t, p.hubSide, fleet.Hub.Config.Host, through.URL)
	letIn(t, p.agentSide, east.Config.Host)
	create(t, east.Cluster, namespace("partition-quiet"), namespace("partition-moving"),
		render("partition-quiet", "partition", "partition/quiet.json"), render("partition-moving", "partition", "partition/moving.json"))
	holds(t, east, "partition-moving", "colour", "red")
	version := holds(t, east, "partition-quiet", "colour", "red").ResourceVersion
	p.start(t, east)
	isApart(t, 0)

	for name, silence := range silences {
		t.Run("in network namespaces "+name, func(t *testing.T) { p.silence(t, east, silence.strike, silence.heal) })
	}
	if now := holds(t, east, "partition-quiet", "colour", "red").ResourceVersion; now != version {
		t.Error("the target of a document that did not change was written again")
	}
}

// isApart waits until east has a session with the replica in its network, later than an
// epoch, and returns its own.
func isApart(t *testing.T, later int64) int64 {
	t.Helper()
	var session *v1alpha1.SpokeSession
	gomega.NewWithT(t).Eventually(func() bool {
		session = spokeCluster(t, "east").Status.Session
		_, connected := epoch(t, "east")
		return connected && session.Hub == apartReplica && session.Epoch > later
	}).WithTimeout(patience).Should(gomega.BeTrue(), "the session of east")
	return session.Epoch
}

// silence drops everything for a while in which a document changes.
func (p *apart) silence(t *testing.T, east *stage.Spoke, strike, heal [][]string) {
	t.Helper()
	const hubSays, agentSays = "HeartbeatMissed", "the hub was silent for three heartbeats"
	before, hubBefore, agentBefore := isApart(t, 0), noticed(t, p.hub, hubSays), noticed(t, p.agent, agentSays)
	sent, began := p.deliveries(t), time.Now()
	p.all(t, strike)
	var hubAfter, agentAfter time.Duration
	gomega.NewWithT(t).Eventually(func() bool {
		if hubAfter == 0 && noticed(t, p.hub, hubSays) > hubBefore {
			hubAfter = time.Since(began)
		}
		if agentAfter == 0 && noticed(t, p.agent, agentSays) > agentBefore {
			agentAfter = time.Since(began)
		}
		return hubAfter > 0 && agentAfter > 0
	}).WithTimeout(patience).Should(gomega.BeTrue(), "both sides notice")
	putConsul(t, "partition/moving.json", `{"colour":"`+t.Name()+`"}`)
	began = time.Now()
	p.all(t, heal)
	isApart(t, before)
	holds(t, east, "partition-moving", "colour", t.Name())
	isReady(t, east, "partition-quiet", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	t.Logf("with heartbeats of 2 s the hub noticed after %s and the agent after %s; %s after the network was back all was current",
		hubAfter.Round(time.Millisecond), agentAfter.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if got := p.deliveries(t) - sent; got != 1 {
		t.Errorf("%d deliveries, want the one of the document that changed", got)
	}
}
