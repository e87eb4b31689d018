//go:build kind

package kind_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/kind"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// testCertManager moves the hub to another cluster of the fleet, where cert-manager
// issues its authority.
func testCertManager(t *testing.T) {
	whole, west := fleet, fleet.SpokeClusters[1]
	moved, err := fleet.WithHubOn(t.Context(), west, east())
	if err != nil {
		t.Fatal(err)
	}
	fleet = moved
	t.Cleanup(func() { fleet = whole })
	installCertManager(t, west)
	for _, c := range []*kind.Cluster{west, east()} {
		if err := c.Install(t.Context(), fleet, "crds", "crds", nil); err != nil {
			t.Fatal(err)
		}
	}
	values := fleet.HubValues()
	values["replicas"] = 1 // so that who answers is who is looked at
	values["ca"] = kind.Values{"certManager": kind.Values{"enabled": true, "issuerRef": kind.Values{"name": "platform"}}}
	if err := west.Install(t.Context(), fleet, "hub", "hub", values); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Enrol(t.Context(), fleet.Stage(t.Context()).Hub, east(), kind.Joining{Name: east().Name, Address: fleet.HubAddress}); err != nil {
		t.Fatal(err)
	}
	serve(t, "issued")
	document(t, "issued", "app", "red")
	ask(t, east(), "issued", "app")
	kubectl(t, east(), "wait", "-n", "issued", "--for=condition=Ready", "--timeout=2m", "dynamicconfigrender/app")
	holds(t, east(), "issued", "app", "red")
	t.Run("a renewal keeps the key, and no agent enrols anew", testRenewal)
	t.Run("with another key agents enrol anew", testAnotherKey)
}

// installCertManager runs cert-manager's controller, with the definitions of the
// version that it was built from.
func installCertManager(t *testing.T, c *kind.Cluster) {
	t.Helper()
	if err := c.Load(t.Context(), fleet.Root, "hub", "certmanager"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	cmd.Dir = filepath.Join(fleet.Root, "tools", "kind", "certmanager")
	module, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "apply", "--server-side", "-f", filepath.Join(strings.TrimSpace(string(module)), "deploy", "crds"))
	kubectl(t, c, "wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all")
	manifest, err := os.ReadFile(filepath.Join("testdata", "cert-manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, string(manifest))
}

func testRenewal(t *testing.T) {
	was, pod, agent := authority(t), hubPod(t), agentCertificate(t)
	// As `cmctl renew` does.
	kubectl(t, hub(), "patch", "certificate", "-n", stage.Namespace, "dynamic-config-hub", "--subresource=status", "--type=json", "-p", fmt.Sprintf(
		`[{"op":"add","path":"/status/conditions/-","value":{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"a test","lastTransitionTime":%q}}]`,
		time.Now().UTC().Format(time.RFC3339)))
	is := anotherAuthority(t, was)
	if !bytes.Equal(is.RawSubjectPublicKeyInfo, was.RawSubjectPublicKeyInfo) {
		t.Error("the authority has another key")
	}
	document(t, "issued", "app", "green")
	holds(t, east(), "issued", "app", "green")
	if agentCertificate(t) != agent {
		t.Error("the agent has enrolled anew")
	}
	if now := hubPod(t); now != pod {
		t.Errorf("the hub was %q and is %q", pod, now)
	}
}

// testAnotherKey loses the authority's Secret: cert-manager issues one with a new key.
func testAnotherKey(t *testing.T) {
	was, pod, agent := authority(t), hubPod(t), agentCertificate(t)
	kubectl(t, hub(), "delete", "secret", "-n", stage.Namespace, "dynamic-config-hub-authority")
	is := anotherAuthority(t, was)
	if bytes.Equal(is.RawSubjectPublicKeyInfo, was.RawSubjectPublicKeyInfo) {
		t.Error("the authority has the key that was lost")
	}
	until(t, func() error {
		if agentCertificate(t) == agent {
			return errors.New("the agent has not enrolled anew")
		}
		return nil
	})
	document(t, "issued", "app", "blue")
	holds(t, east(), "issued", "app", "blue")
	if now := hubPod(t); now != pod {
		t.Errorf("the hub was %q and is %q", pod, now)
	}
}

// authority is the certificate that the hub's own was issued by, as the hub serves it.
func authority(t *testing.T) *x509.Certificate {
	t.Helper()
	// It only looks: an agent verifies.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}
	conn, err := dialer.DialContext(t.Context(), "tcp", fleet.HubAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if len(chain) < 2 {
		t.Fatalf("the hub serves %d certificates, and no authority", len(chain))
	}
	return chain[1]
}

// anotherAuthority waits until the hub serves below another one.
func anotherAuthority(t *testing.T, was *x509.Certificate) *x509.Certificate {
	t.Helper()
	began, is := time.Now(), was
	until(t, func() error {
		if is = authority(t); is.Equal(was) {
			return errors.New("the hub serves the old authority")
		}
		return nil
	})
	t.Logf("the hub served below the new authority after %.1f s", time.Since(began).Seconds())
	return is
}

// hubPod is the hub's pod and how often it was restarted.
func hubPod(t *testing.T) string {
	t.Helper()
	return kubectl(t, hub(), "get", "pods", "-n", stage.Namespace, "-l", "app.kubernetes.io/component=hub",
		"-o", "jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}{end}")
}

func agentCertificate(t *testing.T) string {
	t.Helper()
	return kubectl(t, east(), "get", "secret", "-n", stage.Namespace, "dynamic-config-spoke-identity", "-o", `jsonpath={.data.tls\.crt}`)
}
