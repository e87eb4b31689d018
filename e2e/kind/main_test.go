//go:build kind

package kind_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/kind"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// fleet is what every story plays on.
var fleet *kind.Fleet

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	if kept := os.Getenv(kind.StateVariable); kept != "" {
		var err error
		if fleet, err = kind.Attach(kept); err != nil {
			log.Print(err)
			return 1
		}
		return m.Run()
	}
	options, err := prepare(ctx)
	if err != nil {
		log.Print(err)
		return 1
	}
	began := time.Now()
	fleet, err = kind.Start(ctx, options)
	if os.Getenv("KEEP") == "" {
		defer func() {
			if err := fleet.Stop(ctx); err != nil {
				log.Print(err)
			}
			os.RemoveAll(options.Dir)
		}()
	}
	if err != nil {
		log.Print(err)
		return 1
	}
	log.Printf("three kind clusters with stores, a hub and two agents are up after %.0f s; %s=%s", time.Since(began).Seconds(), kind.StateVariable, fleet.StateFile())
	return m.Run()
}

func prepare(ctx context.Context) (kind.Options, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return kind.Options{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/go.mod", "-n", "helm")
	cmd.Dir = root
	helm, err := cmd.Output()
	if err != nil {
		return kind.Options{}, fmt.Errorf("build helm: %w", err)
	}
	dir, err := os.MkdirTemp("", "dynamic-config-kind-")
	return kind.Options{
		Root: root, Dir: dir, Helm: strings.TrimSpace(string(helm)), Spokes: []string{"east", "west"},
		HubArgs: stage.TestHubArgs(), SpokeArgs: stage.TestSpokeArgs(),
	}, err
}

// TestKind plays in this order: what ends the fleet comes last.
func TestKind(t *testing.T) {
	for _, story := range []struct {
		name string
		play func(*testing.T)
	}{
		{"nothing leaves the container network", testGuard},
		{"the stories of the control planes play on", testStories},
		{"a kubelet brings a change to a mounted Secret, and to an environment at the next start", testKubelet},
		{"a chart with existingSecret comes up with a password that Vault alone holds", testExistingSecret},
		{"a pod that a NetworkPolicy of the charts excludes is refused, and who may connect does", testPolicies},
		{"the hub cluster is a spoke of its own hub", testOwnHub},
		{"a rolling upgrade of the hub loses no change and writes no target again", testUpgrade},
		{"a deleted pod of the hub loses no change", testHubPodDeleted},
		{"a deleted pod of the agent loses no change", testSpokePodDeleted},
		{"the hub cluster's node restarts", testNodeRestarts},
		{"an uninstall leaves no finalizer and no stuck namespace", testUninstall},
		{"cert-manager issues and renews the authority of a hub on another cluster", testCertManager},
	} {
		if !t.Run(story.name, story.play) {
			explain(t)
		}
	}
}

// processes are the stories that handle replicas of the hub one by one, or that ask a
// process for its metrics, its level of logs or its spans. A Service shows one replica
// or the other: they play on processes alone.
var processes = strings.Join([]string{
	"^TestReplicas_", "^TestPage_", "^TestMetrics_", "^TestTraces_", "^TestLogLevel_", "^TestCanary_NothingThatIsTold",
	"^TestCanary_AStoreCredential/^no_(span|metric)", "^TestLoad_TwoThousandReconnects", "^TestLoad_RendersTakeNoGoroutine", "^TestLoad_ASpokeThatDoesNotRead",
}, "|")

// testStories plays package e2e on this fleet.
func testStories(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=30m", "-skip="+processes, "./e2e")
	cmd.Dir = fleet.Root
	cmd.Env = append(os.Environ(), kind.StateVariable+"="+fleet.StateFile())
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	t.Logf("%s", said.String())
}
