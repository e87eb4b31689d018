package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

var (
	//go:embed manifests/document.yaml
	documentManifest string
	//go:embed manifests/render.yaml
	renderManifest string
	//go:embed manifests/stranger.yaml
	strangerManifest string
)

const (
	firstPassword  = "first-password"
	secondPassword = "second-password"
	// showPassword prints one decoded value. It is the demo's own, and no secret.
	showPassword = `go-template={{index .data "PASSWORD" | base64decode}}`
	// showKeys says where the keys of each cluster come from.
	showKeys = `custom-columns=NAME:.metadata.name,STATED:.spec.keys.issuer,PINNED-BY-JOINING:.status.keys.issuer,ALL-PINNED:.status.conditions[?(@.type=="KeysPinned")].status`
)

// scene is one part of the story.
type scene func(ctx context.Context, n *narrator, s *stage.Stage) error

// play tells the story.
func play(ctx context.Context, n *narrator, s *stage.Stage) error {
	for _, scene := range []scene{enrolled, arrives, changes, isRefused, goes} {
		if err := scene(ctx, n, s); err != nil {
			return err
		}
	}
	return nil
}

func enrolled(ctx context.Context, n *narrator, s *stage.Stage) error {
	n.title("1. Both spokes are enrolled")
	n.say("Each agent made a key and proved its cluster by a token of its own ServiceAccount, good for that key alone. It holds no secret that is shared with the hub.")
	for _, spoke := range s.Spokes {
		for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionKeysPinned} {
			if _, err := n.run(ctx, s.Hub.Kubeconfig, "", "wait", "--for=condition="+condition, "--timeout=60s", "spokecluster/"+spoke.Name); err != nil {
				return err
			}
		}
	}
	if err := n.show(ctx, "hub", s.Hub.Kubeconfig, "get", "spokeclusters"); err != nil {
		return err
	}
	n.say("The hub verifies such tokens off line. It was told which keys east's API server signs with, so nothing had to be handed to east. West joined with a one-use token: by it, west's agent brought the keys itself. Both are alike from then on:")
	return n.show(ctx, "hub", s.Hub.Kubeconfig, "get", "spokeclusters", "-o", showKeys)
}

func arrives(ctx context.Context, n *narrator, s *stage.Stage) error {
	n.title("2. A document arrives")
	n.say("The platform team keeps a document in the hub cluster and offers it, by a class, to namespace shop:")
	if err := n.apply(ctx, "hub", s.Hub.Kubeconfig, documentManifest); err != nil {
		return err
	}
	east, west := s.Spoke("east"), s.Spoke("west")
	n.say("A tenant in each spoke asks for it, in east:")
	if err := n.apply(ctx, east.Name, east.Kubeconfig, renderManifest); err != nil {
		return err
	}
	n.say("and the same in west.")
	if _, err := n.run(ctx, west.Kubeconfig, renderManifest, "apply", "-f", "-"); err != nil {
		return err
	}
	for _, spoke := range s.Spokes {
		if _, err := n.run(ctx, spoke.Kubeconfig, "", "wait", "-n", "shop", "--for=condition=Ready", "--timeout=60s", "dynamicconfigrender/database"); err != nil {
			return err
		}
		if err := n.show(ctx, spoke.Name, spoke.Kubeconfig, "get", "dynamicconfigrenders,secrets", "-n", "shop"); err != nil {
			return err
		}
	}
	return n.password(ctx, s, firstPassword)
}

func changes(ctx context.Context, n *narrator, s *stage.Stage) error {
	n.title("3. The document changes")
	n.say("Somebody edits it in the hub cluster (kubectl apply, password: %s); nothing is done in the spokes.", secondPassword)
	began := time.Now()
	if _, err := n.run(ctx, s.Hub.Kubeconfig, strings.ReplaceAll(documentManifest, firstPassword, secondPassword), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := n.password(ctx, s, secondPassword); err != nil {
		return err
	}
	n.say("Both Secrets had the new password %.1f s after the edit was sent, kubectl's own time included.", time.Since(began).Seconds())
	return nil
}

func isRefused(ctx context.Context, n *narrator, s *stage.Stage) error {
	n.title("4. Policy refuses")
	west := s.Spoke("west")
	n.say("Namespace stranger in west asks for the same document. The class does not serve it, and the hub says so:")
	if _, err := n.run(ctx, west.Kubeconfig, strangerManifest, "apply", "-f", "-"); err != nil {
		return err
	}
	const reason = `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`
	if err := n.until(ctx, "ClassNotAllowed", west.Kubeconfig, "get", "dynamicconfigrender", "database", "-n", "stranger", "-o", reason); err != nil {
		return err
	}
	if err := n.show(ctx, west.Name, west.Kubeconfig, "get", "dynamicconfigrenders", "-A", "-o", "wide"); err != nil {
		return err
	}
	secrets, err := n.run(ctx, west.Kubeconfig, "", "get", "secrets", "-n", "stranger", "-o", "name")
	if err != nil {
		return err
	}
	if secrets = strings.TrimSpace(secrets); secrets != "" {
		return fmt.Errorf("namespace stranger has %s, which it must not have", secrets)
	}
	n.say("No Secret was written in namespace stranger.")
	return nil
}

func goes(ctx context.Context, n *narrator, s *stage.Stage) error {
	n.title("5. The Render goes, and its Secret with it")
	east := s.Spoke("east")
	n.say("The tenant in east deletes the Render. No finalizer: the API server's own garbage collector takes the Secret.")
	if err := n.show(ctx, east.Name, east.Kubeconfig, "delete", "dynamicconfigrender", "database", "-n", "shop"); err != nil {
		return err
	}
	if err := n.until(ctx, "", east.Kubeconfig, "get", "secrets", "-n", "shop", "-o", "name"); err != nil {
		return err
	}
	return n.show(ctx, east.Name, east.Kubeconfig, "get", "dynamicconfigrenders,secrets", "-n", "shop")
}
