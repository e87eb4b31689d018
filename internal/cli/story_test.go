package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleethub "dynamic-config.rs/fleet/hub"
	"dynamic-config.rs/fleet/internal/testenv"
	"dynamic-config.rs/fleet/spoke"
)

// installed is the namespace of hub and agent.
const installed = v1alpha1.DefaultSpokeNamespace

// The story runs the program against a real hub and a real agent, in one cluster that is
// both: what they keep, publish and report is what the program takes it to be.
func TestStory(t *testing.T) {
	ctrl.SetLogger(logr.Discard()) // hub and agent have other words than the program
	cluster := testenv.ControlPlane(t, testenv.WithoutControllers)
	address := startHub(t, cluster)
	all := maps.Clone(commands)
	all["agent"] = func(ts *testscript.TestScript, _ bool, args []string) {
		startAgent(ts, cluster, address, args[0])
	}
	all["holds"] = holds
	testscript.Run(t, testscript.Params{
		Dir: "testdata/story", RequireExplicitExec: true, Cmds: all,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HUB_ADDRESS", address)
			return setUp(env, cluster, cluster)
		},
	})
}

// startHub runs a hub that ends with the test, and returns its address.
func startHub(t *testing.T, cluster *testenv.Cluster) string {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: installed}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: v1alpha1.DefaultSpokeServiceAccount}},
	} {
		if err := cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	ports, err := testenv.FreePorts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + ports[0]
	run(t, func(ctx context.Context) error {
		return fleethub.Run(ctx, fleethub.Config{REST: cluster.Config, Namespace: installed, ListenAddress: address, Replica: "hub-0"})
	})
	return address
}

// run runs a program until the test ends.
func run(t *testing.T, program func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.WithoutCancel(t.Context()), logr.Discard()))
	ended := make(chan error, 1)
	go func() { ended <- program(ctx) }() // ends with ctx, and the cleanup waits for it
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// startAgent runs the agent of a cluster until the script ends.
func startAgent(ts *testscript.TestScript, cluster *testenv.Cluster, address, name string) {
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), logr.Discard()))
	ended := make(chan error, 1)
	config := spoke.Config{
		REST: cluster.Config, HubAddress: address, HubCAFile: ts.MkAbs("dynamic-config-hub-ca.crt"), Cluster: name,
		Namespace: installed, MetricsBindAddress: "0", HealthProbeBindAddress: "0",
		Version: "v0.0.0-test", Backoff: spoke.Backoff{AfterSession: time.Millisecond, Min: time.Millisecond, Max: time.Second},
	}
	go func() { ended <- spoke.Run(ctx, config) }() // ends with ctx, and the script waits for it
	ts.Defer(func() {
		cancel()
		if err := <-ended; err != nil {
			ts.Logf("the agent ended: %v", err)
		}
	})
}

// holds FILE TEXT... looks into a bundle for texts.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	packed, err := os.Open(filepath.Clean(ts.MkAbs(args[0])))
	ts.Check(err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	ts.Check(err)
	text, err := io.ReadAll(unpacked)
	ts.Check(err)
	for _, want := range args[1:] {
		if bytes.Contains(text, []byte(want)) == neg {
			ts.Fatalf("%s: %q (unwanted: %v) in:\n%s", args[0], want, neg, text)
		}
	}
}
