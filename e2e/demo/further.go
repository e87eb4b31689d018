package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/identity"
)

// joined is what to look at; its arguments are the name of the cluster.
const joined = `
%[1]s is a context of the same kubeconfig. A tenant there asks for the document, too:

    kubectl --context %[1]s apply -f e2e/demo/manifests/render.yaml
    dynconf status database --context %[1]s --hub-context hub
    dynconf get clusters --hub-context hub

The agent runs until Ctrl-C; then dynconf why cluster/%[1]s --hub-context hub
`

// further runs one more cluster beside a demo that keeps running, until ctx ends.
func further(ctx context.Context, n *narrator, dir, name string) (err error) {
	if err := identity.ValidateCluster(name); err != nil {
		return err
	}
	path, err := kubeconfigPath()
	if err != nil {
		return err
	}
	config, err := readKubeconfig(path)
	if err != nil {
		return err
	}
	if _, taken := config.Contexts[name]; taken {
		return fmt.Errorf("the demo has a cluster %s: take another NAME", name)
	}
	address, err := publishedAddress(ctx, config)
	if err != nil {
		return err
	}
	n.say("Starting a real control plane for %s.", name)
	roots := filepath.Join(dir, "hub-ca.crt")
	spoke, err := stage.Further(ctx, filepath.Join(dir, name), name, address, roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spoke.Stop()) }()
	if err := joinKubeconfig(path, name, spoke.Config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leaveKubeconfig(path, name)) }()
	return enrolAndRun(ctx, n, spoke, path, roots)
}

// enrolAndRun does what a user does: enrol, start the agent, see it connected.
func enrolAndRun(ctx context.Context, n *narrator, spoke *stage.Spoke, kubeconfig, roots string) error {
	// --replace-keys: a cluster of that name that ran before had other keys.
	err := n.showDynconf(ctx, kubeconfig, "cluster", "enroll", spoke.Name, "--context", spoke.Name,
		"--hub-context", hubContext, "--ca-file", roots, "--replace-keys")
	if err != nil {
		return err
	}
	n.say("No pod runs here, so the agent is started by hand, with a kubeconfig of its own ServiceAccount.")
	if err := spoke.Start(ctx); err != nil {
		return err
	}
	defer spoke.Kill()
	if _, err := n.run(ctx, kubeconfig, "", "--context", hubContext, "wait", "--for=condition=Ready", "--timeout=60s", "spokecluster/"+spoke.Name); err != nil {
		return err
	}
	if err := n.showDynconf(ctx, kubeconfig, "get", "clusters", "--hub-context", hubContext); err != nil {
		return err
	}
	fmt.Fprintf(n.out, joined, spoke.Name)
	select {
	case <-ctx.Done():
		n.say("Stopping %s. Its SpokeCluster stays on the hub.", spoke.Name)
		return nil
	case <-spoke.Exited():
		return fmt.Errorf("the agent of %s ended", spoke.Name)
	}
}
