package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
)

const (
	// askEvery is how often a cluster looks whether the demo beside it still runs.
	askEvery = 2 * time.Second
	// answerWithin is how long it waits for the answer: a hub cluster that is gone refuses
	// at once, and one on a busy machine takes its time.
	answerWithin = 15 * time.Second
	// askTimes is after how many questions without an answer it does not.
	askTimes = 3
)

// beside is a demo that keeps running, as one more cluster sees it.
type beside struct {
	// kubeconfig is the file with the contexts of its clusters.
	kubeconfig string
	// address is where its hub is reached.
	address string
	// hub is a client of its hub cluster.
	hub client.Reader
}

// findDemo finds the demo that a cluster of a name is to stand beside; the name must be
// free there.
func findDemo(ctx context.Context, name string) (*beside, error) {
	if err := identity.ValidateCluster(name); err != nil {
		return nil, err
	}
	path, err := kubeconfigPath()
	if err != nil {
		return nil, err
	}
	config, err := readKubeconfig(path)
	if err != nil {
		return nil, err
	}
	hub, err := hubClient(config)
	if err != nil {
		return nil, err
	}
	address, err := publishedAddress(ctx, hub)
	if err != nil {
		return nil, fmt.Errorf("no demo runs here any more: make demo KEEP=1 starts one, and stays (%w)", err)
	}
	if _, taken := config.Contexts[name]; taken {
		return nil, fmt.Errorf("the demo has a cluster %s: take another NAME", name)
	}
	return &beside{kubeconfig: path, address: address, hub: hub}, nil
}

// cluster asks for the SpokeCluster of a name.
func (b *beside) cluster(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return b.hub.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.SpokeCluster{})
}

// ended closes the channel it returns when the demo's hub cluster answers no more.
func (b *beside) ended(ctx context.Context, name string) <-chan struct{} {
	gone := make(chan struct{})
	go func() { // ends with ctx
		tick := time.NewTicker(askEvery)
		defer tick.Stop()
		for missed := 0; missed < askTimes; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := b.cluster(ctx, name); client.IgnoreNotFound(err) != nil {
				missed++
			} else {
				missed = 0
			}
		}
		close(gone)
	}()
	return gone
}

// farewell says what becomes of a cluster that stops, by the hub cluster's answer for
// its SpokeCluster.
func farewell(name string, answer error) string {
	switch {
	case answer == nil:
		return fmt.Sprintf("Stopping %[1]s. Its SpokeCluster stays on the hub; to remove it: dynconf cluster revoke %[1]s --delete --hub-context hub", name)
	case apierrors.IsNotFound(answer):
		return fmt.Sprintf("Stopping %s. The hub has no SpokeCluster of it any more.", name)
	}
	return fmt.Sprintf("Stopping %s. The demo that it stood beside is gone, its hub with it.", name)
}
