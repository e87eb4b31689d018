// Package skew_test plays one story with a hub of this version and an agent of the
// previous commit, and the reverse: what docs/upgrade.md states.
package skew_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// patience bounds every wait.
const patience = 90 * time.Second

// A clone without a previous commit, a shallow one say, has the story of this commit
// alone, and its name says so.
func TestSkew(t *testing.T) {
	cases := map[string]stage.Options{"this agent at this hub: the clone has no previous commit": {}}
	if commit, ok := previousCommit(t); ok {
		previous := build(t, commit)
		cases = map[string]stage.Options{
			"an agent of the previous commit at this hub": {SpokeBinary: filepath.Join(previous, "spoke")},
			"this agent at a hub of the previous commit":  {HubBinary: filepath.Join(previous, "hub")},
		}
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			o.Dir, o.Spokes = t.TempDir(), []string{"east"}
			o.HubArgs, o.SpokeArgs = stage.TestHubArgs(), stage.TestSpokeArgs()
			fleet, err := stage.Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer fleet.Stop()
			play(t, fleet)
		})
	}
}

// play brings a document, changes it, restarts the hub, changes it again, and lets
// the Render go.
func play(t *testing.T, fleet *stage.Stage) {
	t.Helper()
	g, east := gomega.NewWithT(t), fleet.Spoke("east")
	document := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "docs", Name: "app"},
		StringData: map[string]string{"app.json": `{"colour":"red"}`},
	}
	render := &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "render"},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "docs", ClassKind: v1alpha1.ClassKindCluster, Key: "secrets/app/app.json",
			Target: v1alpha1.RenderTarget{Secret: "target", Shape: v1alpha1.ShapeEntries},
		},
	}
	for _, o := range []client.Object{namespace("docs"), document, &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: "docs"},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceKubernetes},
			Kubernetes:  &v1alpha1.KubernetesOptions{Namespace: "docs"},
		},
	}} {
		g.Expect(fleet.Hub.Client.Create(t.Context(), o)).To(gomega.Succeed())
	}
	for _, o := range []client.Object{namespace("team"), render} {
		g.Expect(east.Client.Create(t.Context(), o)).To(gomega.Succeed())
	}
	colour := func() string {
		target := &corev1.Secret{}
		if err := east.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "target"}, target); err != nil {
			return err.Error()
		}
		return string(target.Data["colour"])
	}
	holds := func(want string) { g.Eventually(colour).WithTimeout(patience).Should(gomega.Equal(want)) }
	change := func(to string) {
		document.StringData = map[string]string{"app.json": `{"colour":"` + to + `"}`}
		g.Expect(fleet.Hub.Client.Update(t.Context(), document)).To(gomega.Succeed())
	}
	holds("red")
	change("blue")
	holds("blue")
	fleet.Hub.Kill()
	change("green")
	g.Expect(fleet.Hub.Start(t.Context())).To(gomega.Succeed())
	holds("green")
	g.Expect(east.Client.Delete(t.Context(), render)).To(gomega.Succeed())
	g.Eventually(colour).WithTimeout(patience).Should(gomega.ContainSubstring("not found"))
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// root is the repository's.
var root = filepath.Join("..", "..")

// previousCommit is the one before this one, if this is a clone that has it.
func previousCommit(t *testing.T) (string, bool) {
	t.Helper()
	commit, err := output(t.Context(), root, "git", "rev-parse", "--verify", "--quiet", "HEAD^")
	return strings.TrimSpace(commit), err == nil
}

// build builds hub and agent of a commit and returns their folder.
func build(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "previous.tar")
	for _, command := range [][]string{
		{root, "git", "archive", "--output", archive, commit},
		{dir, "tar", "-xf", archive},
		{dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", "bin/", "./cmd/hub", "./cmd/spoke"},
	} {
		if said, err := output(t.Context(), command[0], command[1], command[2:]...); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, said)
		}
	}
	return filepath.Join(dir, "bin")
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
