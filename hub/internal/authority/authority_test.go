package authority_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
)

const domain = "fleet.example"

func newRoot(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	certPEM, keyPEM, err := authority.NewRoot(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return certPEM, keyPEM
}

func TestNew(t *testing.T) {
	cert, key := newRoot(t)
	other, otherKey := newRoot(t)
	ca, err := authority.New(domain, cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.SignSpoke(spoketest.Key(t).Public(), "prod", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leafPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})
	for name, tc := range map[string]struct {
		cert, key, bundle []byte
		says              string
		roots             int
	}{
		"a root alone trusts itself":                        {cert, key, nil, "", 1},
		"a bundle that repeats the root adds nothing":       {cert, key, cert, "", 1},
		"a bundle adds a coming root":                       {cert, key, slices.Concat(cert, other), "", 2},
		"a bundle without the root does not disown it":      {cert, key, other, "", 2},
		"the key of another root is refused":                {cert, otherKey, nil, "do not fit together", 0},
		"text that is no PEM is refused":                    {[]byte("x"), key, nil, "do not fit together", 0},
		"a key in the bundle is refused":                    {cert, key, slices.Concat(cert, key), "the bundle holds", 0},
		"a spoke's certificate in the bundle is refused":    {cert, key, leafPEM, "the bundle holds", 0},
		"a certificate that may not sign is no authority's": {leafPEM, nil, nil, "do not fit together", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := authority.New(domain, tc.cert, tc.key, tc.bundle)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("error %v, want %q", err, tc.says)
				}
				if bytes.Contains([]byte(err.Error()), tc.key) && len(tc.key) > 0 {
					t.Fatal("the error holds the key")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := len(got.BundleDER()); n != tc.roots {
				t.Errorf("%d roots, want %d", n, tc.roots)
			}
			if got.TrustDomain() != domain {
				t.Errorf("trust domain %q", got.TrustDomain())
			}
		})
	}
}

func TestAuthority_SignSpoke(t *testing.T) {
	ca, now := spoketest.Authority(t), time.Now().Truncate(time.Second)
	cert, err := ca.SignSpoke(spoketest.Key(t).Public(), "prod-eu", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if cluster, err := identity.ClusterOf(cert, ca.TrustDomain()); err != nil || cluster != "prod-eu" {
		t.Errorf("it names %q, %v", cluster, err)
	}
	if !cert.NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("it ends at %v, want an hour after %v", cert.NotAfter, now)
	}
	if !cert.NotBefore.Before(now) {
		t.Error("it begins no earlier than now: a spoke whose clock is behind could not use it")
	}
	for name, use := range map[string]struct {
		usage x509.ExtKeyUsage
		good  bool
	}{
		"client": {x509.ExtKeyUsageClientAuth, true}, "server": {x509.ExtKeyUsageServerAuth, false},
	} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: ca.Roots(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use.usage}})
		if (err == nil) != use.good {
			t.Errorf("as a %s certificate: %v", name, err)
		}
	}
	if cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("a spoke's certificate may sign others")
	}
	again, err := ca.SignSpoke(spoketest.Key(t).Public(), "prod-eu", now, time.Hour)
	if err != nil || again.SerialNumber.Cmp(cert.SerialNumber) == 0 {
		t.Errorf("a second certificate has the same serial number (%v)", err)
	}
	if _, err := ca.SignSpoke("no key", "prod-eu", now, time.Hour); err == nil {
		t.Error("something that is no key was signed")
	}
}

func TestAuthority_SignServer(t *testing.T) {
	ca := spoketest.Authority(t)
	pair, err := ca.SignServer([]string{"hub.example", "10.0.0.7", "::1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hub.example", "10.0.0.7", "::1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: ca.Roots(), DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pair.Leaf.VerifyHostname("other.example"); err == nil {
		t.Error("it holds for any name")
	}
}

func TestServerCertificate_RenewsAtHalfItsLife(t *testing.T) {
	c := authority.NewServerCertificate(spoketest.Authority(t), []string{"hub.example"})
	first, err := c.Get(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Get(nil); err != nil || again != first {
		t.Errorf("a fresh certificate was replaced (%v)", err)
	}
	life := time.Until(first.Leaf.NotAfter)
	first.Leaf.NotAfter = time.Now().Add(life/2 - time.Minute)
	if renewed, err := c.Get(nil); err != nil || renewed == first {
		t.Errorf("an aged certificate was kept (%v)", err)
	}
}
