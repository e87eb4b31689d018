package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testbin"
)

// pollEvery is how often a wait asks kubectl again.
const pollEvery = 100 * time.Millisecond

// narrator talks, and runs kubectl and dynconf.
type narrator struct {
	out              io.Writer
	kubectl, dynconf string
}

func newNarrator(out io.Writer) (*narrator, error) {
	kubectl, err := testbin.Path("kubectl")
	if err != nil {
		return nil, err
	}
	root, err := stage.FindRoot()
	return &narrator{out: out, kubectl: kubectl, dynconf: filepath.Join(root, "bin", "dynconf")}, err
}

func (n *narrator) title(text string) {
	fmt.Fprintf(n.out, "\n%s\n%s\n", text, strings.Repeat("-", len(text)))
}

func (n *narrator) say(format string, args ...any) {
	fmt.Fprintf(n.out, "\n"+format+"\n", args...)
}

// run runs kubectl and returns what it printed.
func (n *narrator) run(ctx context.Context, kubeconfig, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	//nolint:gosec // G204: kubectl is the one that was built, its arguments are the demo's own
	cmd := exec.CommandContext(ctx, n.kubectl, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String(), nil
}

// show runs kubectl in a cluster and shows command and output.
func (n *narrator) show(ctx context.Context, cluster, kubeconfig string, args ...string) error {
	text, err := n.run(ctx, kubeconfig, "", args...)
	fmt.Fprintf(n.out, "\n%s$ kubectl %s\n%s", cluster, strings.Join(args, " "), indent(text))
	return err
}

// showDynconf runs dynconf and shows command and output.
func (n *narrator) showDynconf(ctx context.Context, kubeconfig string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	//nolint:gosec // G204: dynconf is the one that was built, its arguments are the demo's own
	cmd := exec.CommandContext(ctx, n.dynconf, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	text, err := cmd.CombinedOutput()
	fmt.Fprintf(n.out, "\n$ dynconf %s\n%s", strings.Join(args, " "), indent(string(text)))
	return err
}

// apply shows a manifest and applies it.
func (n *narrator) apply(ctx context.Context, cluster, kubeconfig, manifest string) error {
	text, err := n.run(ctx, kubeconfig, manifest, "apply", "-f", "-")
	fmt.Fprintf(n.out, "\n%s$ kubectl apply -f -\n%s%s", cluster, indent(manifest), indent(text))
	return err
}

// until runs kubectl until it prints exactly want.
func (n *narrator) until(ctx context.Context, want, kubeconfig string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		got, err := n.run(ctx, kubeconfig, "", args...)
		if err == nil && strings.TrimSpace(got) == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kubectl %s printed %q to the end, not %q (%w)", strings.Join(args, " "), got, want, ctx.Err())
		case <-tick.C:
		}
	}
}

// password waits until the Secret in every spoke holds a password, and shows it.
func (n *narrator) password(ctx context.Context, s *stage.Stage, want string) error {
	args := []string{"get", "secret", "database", "-n", "shop", "-o", showPassword}
	for _, spoke := range s.Spokes {
		if err := n.until(ctx, want, spoke.Kubeconfig, args...); err != nil {
			return err
		}
	}
	for _, spoke := range s.Spokes {
		fmt.Fprintf(n.out, "\n%s: Secret shop/database holds PASSWORD=%s\n", spoke.Name, want)
	}
	return nil
}

// indent moves text to the right, so that it is told from the narration.
func indent(text string) string {
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}
