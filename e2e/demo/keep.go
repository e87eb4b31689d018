package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// lookAround is what can be pasted into another terminal; its arguments are the
// process, the kubeconfig, the folder of dynconf, that of kubectl, and the addresses of
// the fleet page, the hub and its metrics.
const lookAround = `
Everything keeps running. To stop it: Ctrl-C, or kill %d
In another terminal, in the same folder:

    export KUBECONFIG=%s
    export PATH=%s:$PATH:%s
    dynconf get renders -A --contexts east,west
    dynconf get clusters --hub-context hub                  # counts are up to ten seconds old
    dynconf status database -n shop --context west --hub-context hub
    dynconf why database -n stranger --context west
    dynconf trace secret/database -n shop --context west --hub-context hub
    dynconf doctor -A --context west --hub-context hub      # warns of namespace stranger
    kubectl --context west describe dynamicconfigrenders -A

A document of your own is one more entry of Secret documents/shop, since the class serves secrets/{namespace}/**; then a Render asks for it:

    kubectl --context hub patch secret shop -n documents -p '{"stringData":{"mine.yaml":"colour: blue"}}'
    sed 's/database/mine/' e2e/demo/manifests/render.yaml | kubectl --context west apply -f -
    kubectl --context west wait --for=condition=Ready --timeout=60s dynamicconfigrender/mine -n shop

The fleet page is at https://%s, with a certificate of the hub's own that a browser warns of. It asks for a token:

    kubectl --context hub create token fleet-viewer --audience=dynamic-config-fleet-page

One more cluster, enrolled as a user does it, in a terminal of its own:

    make demo-cluster NAME=north

The hub listens on %s, its metrics are at %s
`

// keep makes the clusters and the page reachable and waits for an interrupt.
func (n *narrator) keep(ctx context.Context, s *stage.Stage, page string) (err error) {
	if err := errors.Join(n.publishAddress(ctx, s), n.openPage(ctx, s)); err != nil {
		return orInterrupted(ctx, err)
	}
	path, err := kubeconfigPath()
	if err != nil {
		return err
	}
	if err := writeKubeconfig(path, s); err != nil {
		return err
	}
	defer func() {
		if gone := os.Remove(path); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	fmt.Fprintf(n.out, lookAround, os.Getpid(), path, filepath.Dir(n.dynconf), filepath.Dir(n.kubectl), page, s.Hub.Address, s.Hub.MetricsURL)
	<-ctx.Done()
	n.say("Stopping everything.")
	return nil
}

// pageAddress is where the fleet page will be.
func pageAddress(ctx context.Context) (string, error) {
	ports, err := testenv.FreePorts(ctx, 1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", ports[0]), nil
}

// openPage gives the hub the rights that its page needs, and makes a user who may see it,
// as docs/fleet-page.md says.
func (n *narrator) openPage(ctx context.Context, s *stage.Stage) error {
	root, err := stage.FindRoot()
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(root, "deploy", "kustomize", "hub-web", "web.yaml")},
		{"create", "serviceaccount", "fleet-viewer", "-n", stage.Namespace},
		{"create", "clusterrolebinding", "fleet-viewer", "--clusterrole=dynamic-config-hub-web-viewer", "--serviceaccount=" + stage.Namespace + ":fleet-viewer"},
	} {
		if _, err := n.run(ctx, s.Hub.Kubeconfig, "", args...); err != nil {
			return err
		}
	}
	return nil
}
