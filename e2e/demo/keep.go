package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// lookAround is what can be pasted into another terminal; its arguments are the
// kubeconfig, the folder of dynconf and that of kubectl.
const lookAround = `
Everything keeps running. To stop it: Ctrl-C, or kill %d
In another terminal:

    export KUBECONFIG=%s
    export PATH=%s:$PATH:%s
    dynconf get renders -A --contexts east,west
    dynconf get clusters --hub-context hub
    dynconf status database -n shop --context west --hub-context hub
    dynconf why database -n stranger --context west
    dynconf trace secret/database -n shop --context west --hub-context hub
    dynconf doctor -A --context west --hub-context hub      # warns of namespace stranger
    kubectl --context west describe dynamicconfigrenders -A

One more cluster, enrolled as a user does it, in a terminal of its own:

    make demo-cluster NAME=north

The hub listens on %s, its metrics are at %s
`

// keep makes the clusters reachable and waits for an interrupt.
func (n *narrator) keep(ctx context.Context, s *stage.Stage) (err error) {
	if err := n.publishAddress(ctx, s); err != nil {
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
	fmt.Fprintf(n.out, lookAround, os.Getpid(), path, filepath.Dir(n.dynconf), filepath.Dir(n.kubectl), s.Hub.Address, s.Hub.MetricsURL)
	<-ctx.Done()
	n.say("Stopping everything.")
	return nil
}
