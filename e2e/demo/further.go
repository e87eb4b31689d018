package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// joined is what to look at; its arguments are the name of the cluster and the process.
const joined = `
The hub counts Renders anew every ten seconds: RENDERS and READY may lag behind so long.

%[1]s is a context of the same kubeconfig. A tenant there asks for the document, too:

    kubectl --context %[1]s apply -f e2e/demo/manifests/render.yaml
    dynconf status database --context %[1]s --hub-context hub
    dynconf get clusters --hub-context hub

The agent runs until Ctrl-C, or kill %[2]d, or the end of the demo; then dynconf why cluster/%[1]s --hub-context hub
`

// further runs one more cluster beside a demo, until ctx or the demo ends.
func further(ctx context.Context, n *narrator, demo *beside, dir, name string) (err error) {
	n.say("Starting a real control plane for %s.", name)
	roots := filepath.Join(dir, "hub-ca.crt")
	spoke, err := stage.Further(ctx, filepath.Join(dir, name), name, demo.address, roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spoke.Stop()) }()
	if err := joinKubeconfig(demo.kubeconfig, name, spoke.Config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leaveKubeconfig(demo.kubeconfig, name)) }()
	if err := n.enrol(ctx, demo, name, roots); err != nil {
		return err
	}
	return n.runAgent(ctx, demo, spoke)
}

// enrol does what a user does first.
func (n *narrator) enrol(ctx context.Context, demo *beside, name, roots string) error {
	args := []string{"cluster", "enroll", name, "--context", name, "--hub-context", hubContext, "--ca-file", roots}
	switch err := demo.cluster(ctx, name); {
	case err == nil:
		n.say("The hub knows a cluster %s that ran before, with other keys: --replace-keys pins those of this one instead.", name)
		args = append(args, "--replace-keys")
	case !apierrors.IsNotFound(err):
		return err
	}
	return n.showDynconf(ctx, demo.kubeconfig, args...)
}

// runAgent starts the agent, sees it connected, and leaves it running.
func (n *narrator) runAgent(ctx context.Context, demo *beside, spoke *stage.Spoke) error {
	n.say("No pod runs here, so the agent is started by hand, with a kubeconfig of its own ServiceAccount.")
	if err := spoke.Start(ctx); err != nil {
		return err
	}
	defer spoke.Kill()
	if _, err := n.run(ctx, demo.kubeconfig, "", "--context", hubContext, "wait", "--for=condition=Ready", "--timeout=60s", "spokecluster/"+spoke.Name); err != nil {
		return err
	}
	if err := n.showDynconf(ctx, demo.kubeconfig, "get", "clusters", "--hub-context", hubContext); err != nil {
		return err
	}
	fmt.Fprintf(n.out, joined, spoke.Name, os.Getpid())
	watching, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case <-ctx.Done():
	case <-demo.ended(watching, spoke.Name):
	case <-spoke.Exited():
		return fmt.Errorf("the agent of %s ended", spoke.Name)
	}
	// ctx is over where somebody ended this process.
	n.say("%s", farewell(spoke.Name, demo.cluster(context.WithoutCancel(ctx), spoke.Name)))
	return nil
}
