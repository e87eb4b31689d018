package identity_test

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"testing"

	"dynamic-config.rs/fleet/internal/identity"
)

const domain = "fleet.example"

func TestClusterOf(t *testing.T) {
	uri := func(s string) []*url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return []*url.URL{u}
	}
	for name, tc := range map[string]struct {
		cert x509.Certificate
		want string
	}{
		"a cluster's own certificate names it":         {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/prod-eu")}, "prod-eu"},
		"no URI is nobody":                             {x509.Certificate{}, ""},
		"two URIs are nobody":                          {x509.Certificate{URIs: append(uri("spiffe://fleet.example/spoke/a"), uri("spiffe://fleet.example/spoke/b")...)}, ""},
		"a DNS name beside the URI is nobody":          {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/a"), DNSNames: []string{"a"}}, ""},
		"an IP address beside the URI is nobody":       {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/a"), IPAddresses: []net.IP{net.IPv4zero}}, ""},
		"another trust domain is nobody":               {x509.Certificate{URIs: uri("spiffe://other.example/spoke/a")}, ""},
		"a trust domain with a port is nobody":         {x509.Certificate{URIs: uri("spiffe://fleet.example:1/spoke/a")}, ""},
		"user info in the URI is nobody":               {x509.Certificate{URIs: uri("spiffe://x@fleet.example/spoke/a")}, ""},
		"another scheme is nobody":                     {x509.Certificate{URIs: uri("https://fleet.example/spoke/a")}, ""},
		"another path is nobody":                       {x509.Certificate{URIs: uri("spiffe://fleet.example/hub/a")}, ""},
		"a further segment is nobody":                  {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/a/b")}, ""},
		"an empty name is nobody":                      {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/")}, ""},
		"capitals are nobody":                          {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/A")}, ""},
		"an escaped slash is nobody":                   {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke%2Fa")}, ""},
		"a query is nobody":                            {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/a?b")}, ""},
		"a fragment is nobody":                         {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/a#b")}, ""},
		"a dot segment that would lead to a is nobody": {x509.Certificate{URIs: uri("spiffe://fleet.example/spoke/../spoke/a")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := identity.ClusterOf(&tc.cert, domain)
			if got != tc.want {
				t.Errorf("cluster %q, want %q", got, tc.want)
			}
			var typed *identity.Error
			if tc.want == "" && (!errors.As(err, &typed) || typed.Reason != identity.ReasonCertificateInvalid) {
				t.Errorf("error %v, want reason %s", err, identity.ReasonCertificateInvalid)
			}
		})
	}
}

func TestSpokeURI_ReadsBack(t *testing.T) {
	got, err := identity.ClusterOf(&x509.Certificate{URIs: []*url.URL{identity.SpokeURI(domain, "prod-eu")}}, domain)
	if err != nil || got != "prod-eu" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestJoinToken(t *testing.T) {
	token, hash := identity.NewJoinToken()
	other, _ := identity.NewJoinToken()
	if !identity.JoinTokenMatches(token, hash) {
		t.Error("a token does not match its own hash")
	}
	if identity.JoinTokenMatches(other, hash) || identity.JoinTokenMatches("", hash) || identity.JoinTokenMatches(token, "") {
		t.Error("a hash is matched by something else than its token")
	}
}

// The two sides and the documents agree on this text: it is protocol.
func TestTokenAudience(t *testing.T) {
	public, err := x509.ParsePKIXPublicKey([]byte{
		0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00, // Ed25519, of zeros
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "dynamic-config:fleet.example:prod-eu:ciq9EumaU2fzda65ZyqOB3EuA8Kt0W-o1pFNHPou_gw"
	if got, err := identity.TokenAudience(domain, "prod-eu", public); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := identity.TokenAudience(domain, "prod-eu", []byte("a secret")); err == nil {
		t.Error("a key that is no public key has an audience")
	}
}
