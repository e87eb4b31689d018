package link_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const canary = "canary-3e77"

func TestCheckEndpoint(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ endpoint, want string }{
		"http":                         {"http://consul.example:8500", ""},
		"https with a path":            {"https://gateway.example/consul/", ""},
		"an address":                   {"https://[::1]:8200", ""},
		"a user":                       {"https://" + canary + "@consul.example", "the endpoint holds user info"},
		"a user and a password":        {"https://u:" + canary + "@consul.example", "the endpoint holds user info"},
		"an empty user":                {"https://@consul.example", "the endpoint holds user info"},
		"a query":                      {"https://consul.example?token=" + canary, "the endpoint holds a query or fragment"},
		"a fragment":                   {"https://consul.example#" + canary, "the endpoint holds a query or fragment"},
		"a file":                       {"file:///etc/" + canary, "the endpoint is not an http or https URL"},
		"a file on a host":             {"file://localhost/etc/" + canary, "the endpoint is not an http or https URL"},
		"a socket":                     {"unix:///run/" + canary, "the endpoint is not an http or https URL"},
		"an abstract socket":           {"unix://@" + canary, "the endpoint is not an http or https URL"},
		"a path":                       {"/run/" + canary, "the endpoint is not an http or https URL"},
		"http without a host":          {"http:///" + canary, "the endpoint is not an http or https URL"},
		"an opaque one":                {"http:" + canary, "the endpoint is not an http or https URL"},
		"a host without a scheme":      {canary + ".example:8500", "the endpoint is not an http or https URL"},
		"a scheme relative one":        {"//" + canary + ".example", "the endpoint is not an http or https URL"},
		"discovery by service records": {"srv://" + canary + ".example", "the endpoint is not an http or https URL"},
		"nothing":                      {"", "the endpoint is not an http or https URL"},
		"what is no URL":               {"http://" + canary + "%zz", "the endpoint is not an http or https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := link.CheckEndpoint(tc.endpoint); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Requests to loopback pass no proxy in any case, so no request would prove it.
func TestNewTransport_HasNoProxy(t *testing.T) {
	t.Parallel()
	transport, err := link.NewTransport(link.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	if transport.Proxy != nil {
		t.Error("the environment's proxy is used")
	}
}

// authority makes an authority and a client's certificate of it.
func authority(t *testing.T) (ca *testenv.Authority, certPEM, keyPEM []byte) {
	t.Helper()
	ca, err := testenv.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err = ca.Client("hub")
	if err != nil {
		t.Fatal(err)
	}
	return ca, certPEM, keyPEM
}

func TestNewTransport_RefusesWhatIsNoCertificate(t *testing.T) {
	t.Parallel()
	_, cert, key := authority(t)
	_, _, other := authority(t)
	const pair = "the client certificate and its key are not PEM, or do not belong together"
	for name, tc := range map[string]struct {
		tls  link.TLS
		want string
	}{
		"a CA that is no PEM":           {link.TLS{CAPEM: []byte(canary)}, "the CA holds no certificate in PEM"},
		"a CA that is a key":            {link.TLS{CAPEM: key}, "the CA holds no certificate in PEM"},
		"a certificate that is no PEM":  {link.TLS{CertPEM: []byte(canary), KeyPEM: key}, pair},
		"a key that is no PEM":          {link.TLS{CertPEM: cert, KeyPEM: []byte(canary)}, pair},
		"another certificate's key":     {link.TLS{CertPEM: cert, KeyPEM: other}, pair},
		"the two the wrong way round":   {link.TLS{CertPEM: key, KeyPEM: cert}, pair},
		"a certificate without a key":   {link.TLS{CertPEM: cert}, pair},
		"a key without a certificate":   {link.TLS{KeyPEM: key}, pair},
		"PEM of something else":         {link.TLS{CertPEM: []byte("-----BEGIN " + canary + "-----\nAAAA\n-----END " + canary + "-----\n"), KeyPEM: key}, pair},
		"a certificate that is cut off": {link.TLS{CertPEM: cert[:len(cert)/2], KeyPEM: key}, pair},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := link.NewTransport(tc.tls); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// guarded is a server that takes no client without a certificate of ca.
func guarded(t *testing.T, ca *testenv.Authority, version uint16) *httptest.Server {
	t.Helper()
	certPEM, keyPEM, err := ca.Server("store")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca.PEM)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, MaxVersion: version, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// TestFault_AClientThatTheStoreRefuses repeats each case: with TLS 1.3 a client learns
// that it was refused after its handshake, in a race with its first request.
func TestFault_AClientThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	ca, cert, key := authority(t)
	_, foreignCert, foreignKey := authority(t)
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		server := guarded(t, ca, version)
		for what, tc := range map[string]struct {
			cert, key []byte
			refused   bool
		}{
			"a certificate of the authority": {cert, key, false},
			"none":                           {nil, nil, true},
			"one of another authority":       {foreignCert, foreignKey, true},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				transport, err := link.NewTransport(link.TLS{CAPEM: ca.PEM, CertPEM: tc.cert, KeyPEM: tc.key})
				if err != nil {
					t.Fatal(err)
				}
				client := &http.Client{Transport: transport, Timeout: time.Minute}
				for range 50 {
					answer, err := client.Get(server.URL)
					transport.CloseIdleConnections()
					if err == nil {
						_ = answer.Body.Close()
					}
					if (err != nil) != tc.refused {
						t.Fatalf("error %v", err)
					}
					if err == nil {
						continue
					}
					fault := link.Fault(err, errors.New("other"))
					if fault.Reason != v1alpha1.ReasonStoreTLSFailed || !strings.HasPrefix(fault.Err.Error(), "the store ended the TLS connection: ") {
						t.Fatalf("got %s: %v, of %v", fault.Reason, fault.Err, err)
					}
				}
			})
		}
	}
}
