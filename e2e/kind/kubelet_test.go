//go:build kind

package kind_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/kind"
)

// testGuard finds that a packet to an address outside is dropped by the node's own
// rule, from the node and from a pod: 192.0.2.1 is nobody's (RFC 5737), so the rule's
// counter is what tells.
func testGuard(t *testing.T) {
	for _, c := range append(fleet.SpokeClusters, hub()) {
		pod := visitor{c, "guard", "visitor", ""}
		visit(t, pod)
		begin := dropped(t, c)
		if _, err := c.OnNode(t.Context(), "curl", "-s", "--max-time", "2", "http://192.0.2.1/"); err == nil {
			t.Errorf("%s: an address of nobody answers", c.Name)
		}
		node := dropped(t, c)
		if node == begin {
			t.Errorf("%s: the guard has dropped nothing of the node", c.Name)
		}
		pod.finds(t, "192.0.2.1:80", "closed")
		if dropped(t, c) == node {
			t.Errorf("%s: the guard has dropped nothing of a pod", c.Name)
		}
	}
}

// dropped is how many packets the guard of a cluster's node has dropped.
func dropped(t *testing.T, c *kind.Cluster) string {
	t.Helper()
	out, err := c.OnNode(t.Context(), "iptables", "-t", "mangle", "-vnxL", "POSTROUTING")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "no egress") {
			return strings.Fields(line)[0]
		}
	}
	t.Fatalf("%s has no guard", c.Name)
	return ""
}

const consumers = `
apiVersion: v1
kind: Pod
metadata: {namespace: kubelet, name: mounted}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
    - name: app
      image: dynamic-config.e2e/app:e2e
      imagePullPolicy: Never
      volumeMounts: [{name: config, mountPath: /config}]
  volumes: [{name: config, secret: {secretName: app}}]
---
` + environment

const environment = `
apiVersion: v1
kind: Pod
metadata: {namespace: kubelet, name: environment}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
    - name: app
      image: dynamic-config.e2e/app:e2e
      imagePullPolicy: Never
      envFrom: [{secretRef: {name: app}}]
`

func testKubelet(t *testing.T) {
	const file, variable = "file?path=/config/colour", "env?name=colour"
	serve(t, "kubelet")
	document(t, "kubelet", "app", "red")
	kubectl(t, east(), "create", "namespace", "kubelet")
	// Pods first: a kubelet waits for the Secrets that they name.
	apply(t, east(), consumers)
	ask(t, east(), "kubelet", "app")
	serves(t, east(), app("kubelet", "mounted", file), "red")
	serves(t, east(), app("kubelet", "environment", variable), "red")

	began := time.Now()
	document(t, "kubelet", "app", "blue")
	holds(t, east(), "kubelet", "app", "blue")
	written := time.Since(began)
	serves(t, east(), app("kubelet", "mounted", file), "blue")
	t.Logf("a change was in the Secret after %.1f s and in the pod's file after %.1f s", written.Seconds(), time.Since(began).Seconds())
	serves(t, east(), app("kubelet", "environment", variable), "red")

	kubectl(t, east(), "delete", "pod", "-n", "kubelet", "environment")
	apply(t, east(), environment)
	serves(t, east(), app("kubelet", "environment", variable), "blue")
	if restarts := kubectl(t, east(), "get", "pod", "-n", "kubelet", "mounted", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the mounted pod restarted %s times", restarts)
	}
}

func testOwnHub(t *testing.T) {
	serve(t, "own")
	document(t, "own", "app", "red")
	address := "dynamic-config-hub.dynamic-config-system.svc:8443"
	how := kind.Joining{Name: "platform", Address: address}
	if err := fleet.Enrol(t.Context(), fleet.Stage(t.Context()).Hub, hub(), how); err != nil {
		t.Fatal(err)
	}
	kubectl(t, hub(), "wait", "--for=condition=Ready", "--timeout=60s", "spokecluster/platform")
	ask(t, hub(), "own", "app")
	holds(t, hub(), "own", "app", "red")
	document(t, "own", "app", "blue")
	holds(t, hub(), "own", "app", "blue")
	fmt.Fprintln(t.Output(), kubectl(t, hub(), "get", "spokeclusters"))
}
