//go:build kind

package kind_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/e2e/internal/kind"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// visitor is a pod that looks which ports let it in.
type visitor struct {
	cluster                 *kind.Cluster
	namespace, name, labels string
}

func (v visitor) manifest() string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Pod
metadata: {namespace: %[1]s, name: %[2]s, labels: {%[3]s}}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
    - name: app
      image: dynamic-config.e2e/app:e2e
      imagePullPolicy: Never
      readinessProbe: {httpGet: {path: /env, port: 8080}, periodSeconds: 1}
`, v.namespace, v.name, v.labels)
}

// finds waits until a port is "open" or "closed" to the visitor.
func (v visitor) finds(t *testing.T, address, want string) {
	t.Helper()
	path := app(v.namespace, v.name, "dial?address="+url.QueryEscape(address))
	until(t, func() error {
		got, err := v.cluster.Kubectl(t.Context(), "", "get", "--raw", path)
		if err == nil && got != want {
			err = fmt.Errorf("%s: %s is %s to %s, not %s", v.cluster.Name, address, got, v.name, want)
		}
		return err
	})
}

// visit starts visitors, and ends them with the story.
func visit(t *testing.T, visitors ...visitor) {
	t.Helper()
	after := context.WithoutCancel(t.Context())
	for _, v := range visitors {
		apply(t, v.cluster, v.manifest())
		t.Cleanup(func() {
			if _, err := v.cluster.Kubectl(after, "", "delete", "pod", "-n", v.namespace, v.name); err != nil {
				t.Error(err)
			}
		})
	}
	for _, v := range visitors {
		kubectl(t, v.cluster, "wait", "--for=condition=Ready", "--timeout=2m", "-n", v.namespace, "pod/"+v.name)
	}
}

// peer are the pods of a role, as a NetworkPolicy names them.
func peer(role string) kind.Values {
	return kind.Values{
		"namespaceSelector": kind.Values{"matchLabels": kind.Values{"kubernetes.io/metadata.name": "policies"}},
		"podSelector":       kind.Values{"matchLabels": kind.Values{"role": role}},
	}
}

// address is the node of a cluster, from which its pods' connections come.
func address(t *testing.T, c *kind.Cluster) string {
	t.Helper()
	ip, err := c.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ip
}

func block(ip string) kind.Values { return kind.Values{"ipBlock": kind.Values{"cidr": ip + "/32"}} }

// policies are the hub's with every value in use. Spokes are the addresses of clusters
// that may connect.
func policies(t *testing.T, spokes ...string) kind.Values {
	t.Helper()
	from := []any{peer("agent")}
	for _, ip := range spokes {
		from = append(from, block(ip))
	}
	values := fleet.HubValues()
	values["web"] = kind.Values{"enabled": true}
	values["networkPolicy"] = kind.Values{
		"spokesFrom": from, "metricsFrom": []any{peer("prometheus")}, "webFrom": []any{peer("browser")},
		"egress": []any{
			kind.Values{"ports": []any{kind.Values{"port": 53, "protocol": "UDP"}, kind.Values{"port": 53, "protocol": "TCP"}}},
			kind.Values{"ports": []any{kind.Values{"port": 6443}}, "to": []any{block(address(t, hub()))}},
			kind.Values{"to": []any{kind.Values{"namespaceSelector": kind.Values{"matchLabels": kind.Values{"kubernetes.io/metadata.name": "stores"}}}}},
		},
	}
	return values
}

// hubPods are the addresses of the hub's pods that stay.
func hubPods(t *testing.T) []string {
	t.Helper()
	return strings.Fields(kubectl(t, hub(), "get", "pods", "-n", stage.Namespace, "-l", "app.kubernetes.io/component=hub",
		"-o", "go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.status.podIP}} {{end}}{{end}}"))
}

// testPolicies narrows the charts' NetworkPolicies as far as their values go. What is
// closed to one pod is open to another: the ports are served, and a policy decides.
func testPolicies(t *testing.T) {
	serve(t, "policies")
	document(t, "policies", "app", "red")
	for _, c := range fleet.SpokeClusters {
		ask(t, c, "policies", "app")
		holds(t, c, "policies", "app", "red")
	}
	after := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := hub().Install(after, fleet, "hub", "hub", fleet.HubValues()); err != nil {
			t.Error(err)
		}
	})
	// --wait ends when the kubelet's probes of a port that no policy opens are answered.
	if err := hub().Install(t.Context(), fleet, "hub", "hub", policies(t, address(t, east()))); err != nil {
		t.Fatal(err)
	}
	t.Run("ingress of the hub", testIngress)
	t.Run("egress of the hub and of the agent", testEgress)
	t.Run("clusters are told apart by the addresses of their nodes", testSpokesFrom)
}

func testIngress(t *testing.T) {
	of := map[string]visitor{}
	for _, role := range []string{"agent", "prometheus", "browser", "stranger"} {
		of[role] = visitor{hub(), "policies", role, "role: " + role}
	}
	visit(t, slices.Collect(maps.Values(of))...)
	const spokes, metrics, web, health = "8443", "8080", "8444", "8081"
	for _, pod := range hubPods(t) {
		for role, mayVisit := range map[string]string{"agent": spokes, "prometheus": metrics, "browser": web, "stranger": ""} {
			for _, port := range []string{spokes, metrics, web, health} {
				want := "closed"
				if port == mayVisit {
					want = "open"
				}
				of[role].finds(t, pod+":"+port, want)
			}
		}
	}
	of["browser"].finds(t, "dynamic-config-hub-web."+stage.Namespace+".svc:"+web, "open")
}

// testEgress visits as the hub and as the agent: by their labels, so that the policies
// are theirs.
func testEgress(t *testing.T) {
	const apiServer = "kubernetes.default.svc:443"
	stranger := visitor{hub(), "policies", "elsewhere", "role: stranger"}
	asHub := visitor{hub(), stage.Namespace, "as-hub", "app.kubernetes.io/name: dynamic-config-hub, app.kubernetes.io/instance: hub"}
	abroad := visitor{east(), "policies", "elsewhere", "role: stranger"}
	asAgent := visitor{east(), stage.Namespace, "as-agent", "app.kubernetes.io/name: dynamic-config-spoke, app.kubernetes.io/instance: spoke"}
	visit(t, stranger, asHub, abroad, asAgent)

	consul, outside := "consul.stores.svc:8500", strings.TrimPrefix(fleet.ConsulURL, "http://")
	page := kubectl(t, hub(), "get", "pod", "-n", "policies", stranger.name, "-o", "jsonpath={.status.podIP}") + ":8080"
	for _, is := range []struct {
		visitor
		address, want string
	}{
		{asHub, apiServer, "open"},
		{asHub, consul, "open"},
		{asHub, page, "closed"},
		{stranger, page, "open"},
		{asAgent, apiServer, "open"},
		{asAgent, fleet.HubAddress, "open"},
		{asAgent, outside, "closed"},
		{abroad, outside, "open"},
	} {
		is.finds(t, is.address, is.want)
	}
	document(t, "policies", "app", "green")
	holds(t, east(), "policies", "app", "green")
}

func testSpokesFrom(t *testing.T) {
	west := fleet.SpokeClusters[1]
	from := map[*kind.Cluster]visitor{}
	for _, c := range fleet.SpokeClusters {
		from[c] = visitor{c, "policies", "visitor", "role: stranger"}
	}
	visit(t, slices.Collect(maps.Values(from))...)
	from[east()].finds(t, fleet.HubAddress, "open")
	from[west].finds(t, fleet.HubAddress, "closed")
	// A session that is open stays open: it ends with its agent.
	kubectl(t, west, "delete", "pod", "-n", stage.Namespace, "-l", "app.kubernetes.io/component=spoke", "--wait=false")
	kubectl(t, hub(), "wait", "--for=condition=Ready=False", "--timeout=3m", "spokecluster/"+west.Name)
	document(t, "policies", "app", "blue")
	holds(t, east(), "policies", "app", "blue")

	if err := hub().Install(t.Context(), fleet, "hub", "hub", policies(t, address(t, east()), address(t, west))); err != nil {
		t.Fatal(err)
	}
	connected(t)
	holds(t, west, "policies", "app", "blue")
}
