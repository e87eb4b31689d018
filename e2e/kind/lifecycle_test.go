//go:build kind

package kind_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/e2e/internal/kind"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// disturb plays a disturbance: before it every spoke has a document that stays and
// one that will change; the second changes while it happens, and again after it. Both
// changes arrive, and the target of the first is not written again.
func disturb(t *testing.T, name string, disturbance func(t *testing.T)) {
	t.Helper()
	serve(t, name)
	document(t, name, "quiet", "red")
	document(t, name, "moving", "red")
	before := map[*kind.Cluster]string{}
	for _, c := range fleet.SpokeClusters {
		ask(t, c, name, "quiet")
		ask(t, c, name, "moving")
		before[c] = holds(t, c, name, "quiet", "red")
		holds(t, c, name, "moving", "red")
	}
	disturbance(t)
	document(t, name, "moving", "green")
	for _, c := range fleet.SpokeClusters {
		holds(t, c, name, "moving", "green")
	}
	connected(t)
	for _, c := range fleet.SpokeClusters {
		if after := holds(t, c, name, "quiet", "red"); after != before[c] {
			t.Errorf("%s: the target of a document that did not change was written again", c.Name)
		}
	}
}

// testUpgrade rolls the hub to another image while documents change.
func testUpgrade(t *testing.T) {
	if _, err := hub().OnNode(t.Context(), "ctr", "-n", "k8s.io", "images", "tag", "dynamic-config.e2e/hub:e2e", "dynamic-config.e2e/hub:next"); err != nil {
		t.Fatal(err)
	}
	disturb(t, "upgrade", func(t *testing.T) {
		values := fleet.HubValues()
		values["image"].(kind.Values)["tag"] = "next"
		done := make(chan error, 1)
		go func() { done <- hub().Install(t.Context(), fleet, "hub", "hub", values) }()
		for changes := 1; ; changes++ {
			colour := fmt.Sprintf("blue-%d", changes)
			document(t, "upgrade", "moving", colour)
			for _, c := range fleet.SpokeClusters {
				holds(t, c, "upgrade", "moving", colour)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d changes arrived in both spokes while the hub rolled", changes)
				return
			default:
			}
		}
	})
	images := kubectl(t, hub(), "get", "pods", "-n", stage.Namespace, "-l", "app.kubernetes.io/name=dynamic-config-hub",
		"--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	if !strings.Contains(images, "hub:next") {
		t.Errorf("the hub runs %s", images)
	}
}

func testHubPodDeleted(t *testing.T) {
	disturb(t, "hub-pod", func(t *testing.T) {
		pod := kubectl(t, hub(), "get", "pods", "-n", stage.Namespace, "-l", "app.kubernetes.io/name=dynamic-config-hub", "-o", "jsonpath={.items[0].metadata.name}")
		kubectl(t, hub(), "delete", "pod", "-n", stage.Namespace, pod, "--wait=false")
		document(t, "hub-pod", "moving", "blue")
		for _, c := range fleet.SpokeClusters {
			holds(t, c, "hub-pod", "moving", "blue")
		}
		rolledOut(t, hub(), "dynamic-config-hub")
	})
}

func testSpokePodDeleted(t *testing.T) {
	disturb(t, "spoke-pod", func(t *testing.T) {
		kubectl(t, east(), "delete", "pod", "-n", stage.Namespace, "-l", "app.kubernetes.io/name=dynamic-config-spoke", "--wait=false")
		document(t, "spoke-pod", "moving", "blue")
		rolledOut(t, east(), "dynamic-config-spoke")
		holds(t, east(), "spoke-pod", "moving", "blue")
	})
}

// testNodeRestarts restarts the hub cluster's node, the API server and etcd on it
// included.
func testNodeRestarts(t *testing.T) {
	disturb(t, "node", func(t *testing.T) {
		was, err := hub().Address(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "docker", "restart", hub().Node()).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if is, err := hub().Address(t.Context()); err != nil || is != was {
			t.Fatalf("the node is at %s and was at %s (%v): the spokes cannot know", is, was, err)
		}
		until(t, func() error {
			_, err := hub().Kubectl(t.Context(), "", "get", "--raw", "/readyz")
			return err
		})
		rolledOut(t, hub(), "dynamic-config-hub")
	})
}

func rolledOut(t *testing.T, c *kind.Cluster, deployment string) {
	t.Helper()
	until(t, func() error {
		_, err := c.Kubectl(t.Context(), "", "rollout", "status", "-n", stage.Namespace, "deployment/"+deployment, "--timeout=2m")
		return err
	})
}

// testUninstall takes the product away, the hub first, and then the namespaces, with
// every Render still in them.
func testUninstall(t *testing.T) {
	clusters := append([]*kind.Cluster{hub()}, fleet.SpokeClusters...)
	serve(t, "last")
	document(t, "last", "app", "red")
	ask(t, east(), "last", "app")
	holds(t, east(), "last", "app", "red")
	if err := hub().Uninstall(t.Context(), fleet, "hub"); err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		if err := c.Uninstall(t.Context(), fleet, "spoke"); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, east(), "last", "app", "red") // an uninstall deletes no target
	for _, c := range clusters {
		finalizers := kubectl(t, c, "get", "dynamicconfigrenders,dynamicconfigclasses,clusterdynamicconfigclasses,spokeclusters", "-A",
			"-o", "jsonpath={.items[*].metadata.finalizers}")
		if strings.TrimSpace(finalizers) != "" {
			t.Errorf("%s: finalizers %s", c.Name, finalizers)
		}
	}
	for _, namespace := range []string{"last", stage.Namespace} {
		kubectl(t, east(), "delete", "namespace", namespace, "--timeout=60s")
	}
	kubectl(t, hub(), "delete", "namespace", stage.Namespace, "--timeout=60s")
	for _, c := range clusters {
		// The release kept them: they go by hand, and every object of theirs with them.
		for crd := range strings.FieldsSeq(kubectl(t, c, "get", "customresourcedefinitions", "-o", "name")) {
			if strings.HasSuffix(crd, ".dynamic-config.rs") {
				kubectl(t, c, "delete", crd, "--timeout=60s")
			}
		}
	}
}
