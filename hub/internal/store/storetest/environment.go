package storetest

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/internal/testenv"
)

// Files are in the hub's file system, where an environment might point.
type Files struct {
	// CA, Cert and Key are an authority's certificate, a client's of it and its key.
	CA, Cert, Key string
	// Token holds the word ambient.
	Token string
	// Dir holds CA alone.
	Dir string
}

// Environment has a store read through HTTPS, with variables of each case in the
// environment, and wants all requests to be as they are without: the same paths and
// headers to the same server, which is verified, and no certificate shown. ask reads
// from the endpoint; handler is the store.
func Environment(
	t *testing.T, handler http.HandlerFunc, ask func(t *testing.T, endpoint string, s link.TLS) error,
	cases func(Files) map[string]map[string]string,
) {
	t.Helper()
	ca, err := testenv.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	seen := &record{}
	endpoint := seen.serve(t, ca, handler)
	read := func(t *testing.T) []string {
		t.Helper()
		if err := ask(t, endpoint, link.TLS{CAPEM: ca.PEM}); err != nil {
			t.Errorf("the class's CA: %v", err)
		}
		requests := seen.take()
		if err := ask(t, endpoint, link.TLS{}); store.ReasonOf(err) != v1alpha1.ReasonStoreTLSFailed {
			t.Errorf("the system's roots: %v", err)
		}
		if more := seen.take(); len(more) > 0 {
			t.Errorf("a server that was not verified was asked %v", more)
		}
		return requests
	}
	want := read(t)
	for name, variables := range cases(files(t, ca)) {
		t.Run(name, func(t *testing.T) {
			for variable, value := range variables {
				t.Setenv(variable, value)
			}
			if diff := cmp.Diff(want, read(t)); diff != "" {
				t.Errorf("requests (-without +with):\n%s", diff)
			}
		})
	}
}

// files writes them; the authority is the server's own.
func files(t *testing.T, ca *testenv.Authority) Files {
	t.Helper()
	cert, key, err := ca.Client("ambient")
	if err != nil {
		t.Fatal(err)
	}
	dir, client := t.TempDir(), t.TempDir()
	f := Files{
		Dir: dir, CA: filepath.Join(dir, "ca.crt"),
		Cert: filepath.Join(client, "tls.crt"), Key: filepath.Join(client, "tls.key"), Token: filepath.Join(client, "token"),
	}
	for path, text := range map[string][]byte{f.CA: ca.PEM, f.Cert: cert, f.Key: key, f.Token: []byte("ambient")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// record keeps what a server was asked.
type record struct {
	mu       sync.Mutex
	requests []string
}

func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.requests = nil }()
	return r.requests
}

// serve starts a server that takes a client's certificate where one is shown.
func (r *record) serve(t *testing.T, ca *testenv.Authority, handler http.HandlerFunc) (endpoint string) {
	t.Helper()
	certPEM, keyPEM, err := ca.Server("store")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var headers []string
		for _, name := range slices.Sorted(maps.Keys(request.Header)) {
			headers = append(headers, name+"="+strings.Join(request.Header[name], ","))
		}
		r.mu.Lock()
		r.requests = append(r.requests, fmt.Sprintf("%s %s%s %q, %d certificates",
			request.Method, request.Host, request.RequestURI, headers, len(request.TLS.PeerCertificates)))
		r.mu.Unlock()
		handler(w, request)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}
