package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// A credential of a store on the hub is found nowhere in a spoke: not in its etcd,
// not in the agent's log, and not in a byte that the hub sends to a cluster. Each
// search is shown to find what it should: the document, and on the hub the
// credential.
func TestCanary_AStoreCredentialStaysOnTheHub(t *testing.T) {
	const key, value = "canary/app.json", "canary-document-4f1c"
	putConsul(t, key, `{"colour":"`+value+`"}`)
	class := consulClass(t, "canary", "canary/", countRequests(t))
	credential := &corev1.Secret{}
	if err := fleet.Hub.Client.Get(t.Context(), keyOf(class.Spec.TokenSecret), credential); err != nil {
		t.Fatal(err)
	}
	token := credential.Data["token"]
	namespaces(t, "canary")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("canary", "canary", key))
		holds(t, spoke, "canary", "colour", value)
		isReady(t, spoke, "canary", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	}

	t.Run("nothing on the disk of a spoke cluster holds it", func(t *testing.T) {
		for _, spoke := range fleet.Spokes {
			disk, err := spoke.Disk(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if found := filesWith(t, disk, token); len(found) > 0 {
				t.Errorf("%s: found in %v", spoke.Name, found)
			}
			if found := filesWith(t, disk, []byte(value)); len(found) == 0 {
				t.Errorf("%s: the search does not find the document in etcd either", spoke.Name)
			}
		}
		disk, err := fleet.Hub.Disk(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found := filesWith(t, disk, token); len(found) == 0 {
			t.Error("the search does not find the credential on the hub either")
		}
	})
	t.Run("no log holds it, nor the document", func(t *testing.T) {
		logs := map[string]func() ([]byte, error){"hub": fleet.Hub.Log, "the hub's decisions": fleet.Hub.Audit}
		for _, spoke := range fleet.Spokes {
			logs[spoke.Name] = spoke.Log
		}
		for name, read := range logs {
			text, err := read()
			if err != nil || len(text) == 0 {
				t.Fatalf("%s: %d bytes of log, %v", name, len(text), err)
			}
			if bytes.Contains(text, token) || bytes.Contains(text, []byte(value)) {
				t.Errorf("the log of %s holds the credential or the document", name)
			}
		}
	})
	t.Run("no span holds it, nor the document", func(t *testing.T) {
		applied := func(s span) bool { return s.GetName() == "apply.Apply" && s.attribute("namespace") == "canary" }
		gomega.NewWithT(t).Eventually(func() int { return len(collected.where(applied)) }).WithTimeout(patience).
			Should(gomega.BeNumerically(">=", len(fleet.Spokes)))
		if text := collected.bytes(); bytes.Contains(text, token) || bytes.Contains(text, []byte(value)) {
			t.Error("a span holds the credential or the document")
		}
	})
	t.Run("no metric holds it, nor the document, nor the key", func(t *testing.T) {
		for _, url := range metricsURLs() {
			if text := scrape(t, url); bytes.Contains(text, token) || bytes.Contains(text, []byte(value)) || bytes.Contains(text, []byte(key)) {
				t.Errorf("%s holds the credential or the document", url)
			}
		}
	})
	t.Run("no byte that the hub sends holds it", func(t *testing.T) {
		received := recordSession(t, "canary", key)
		if !bytes.Contains(received, []byte(value)) {
			t.Error("the record does not hold the document that was delivered")
		}
		if bytes.Contains(received, token) {
			t.Error("the hub sent the credential")
		}
	})
}

// filesWith are the files below a folder that hold some bytes.
func filesWith(t *testing.T, dir string, needle []byte) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // etcd renames and removes files
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(text, needle) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// recordSession enrols a cluster of its own and holds one session that asks for one
// document. It returns every byte received, as it was before encryption.
func recordSession(t *testing.T, class, key string) []byte {
	t.Helper()
	record := &recorder{}
	certificate := record.enrol(t, "recorder")
	stream, err := openSessionOn(t, record.dial(t, &certificate))
	if err != nil {
		t.Fatal(err)
	}
	stream.served(t, &fleetv1.RenderSpec{
		Ref: &fleetv1.RenderRef{Namespace: "any", Name: "render", Uid: "1"}, Generation: 1,
		Class: class, ClassKind: fleetv1.ClassKind_CLASS_KIND_CLUSTER, Key: key,
		Target: &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_SECRET, Name: "t", Shape: fleetv1.Shape_SHAPE_ENTRIES},
	})
	return record.bytes()
}

// recorder keeps what arrives on TLS connections, decrypted.
type recorder struct {
	mu   sync.Mutex
	text []byte
}

func (r *recorder) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.text)
}

// enrol gets a certificate for a cluster of a name, with the keys of the first spoke.
func (r *recorder) enrol(t *testing.T, name string) tls.Certificate {
	t.Helper()
	spoke := fleet.Spokes[0]
	keys, err := spoke.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Hub.Register(t.Context(), name, keys); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	audience, err := identity.TokenAudience(identity.DefaultTrustDomain, name, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	token, err := spoke.Token(t.Context(), audience)
	if err != nil {
		t.Fatal(err)
	}
	enrolled, err := fleetv1.NewEnrollmentServiceClient(r.dial(t, nil)).Enroll(t.Context(), &fleetv1.EnrollRequest{
		Cluster: name, CsrDer: csr, Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: token},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: enrolled.GetChainDer(), PrivateKey: key}
}

// dial connects to the hub; every byte that arrives is kept.
func (r *recorder) dial(t *testing.T, certificate *tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(fleet.Hub.Address, grpc.WithTransportCredentials(recording{credentials.NewTLS(hubTLS(t, certificate)), r}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// hubTLS trusts the hub and nobody else, and shows a certificate if there is one.
func hubTLS(t *testing.T, certificate *tls.Certificate) *tls.Config {
	t.Helper()
	ca, err := fleet.Hub.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "dynamic-config-hub", RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM([]byte(ca))
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return config
}

// recording wraps a connection once it is encrypted, so that plain bytes are seen.
type recording struct {
	credentials.TransportCredentials
	to *recorder
}

func (c recording) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return recordedConn{conn, c.to}, info, nil
}

func (c recording) Clone() credentials.TransportCredentials {
	return recording{c.TransportCredentials.Clone(), c.to}
}

type recordedConn struct {
	net.Conn
	to *recorder
}

func (c recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.to.mu.Lock()
	c.to.text = append(c.to.text, p[:n]...)
	c.to.mu.Unlock()
	return n, err
}
