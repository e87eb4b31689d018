package authority

import (
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var birth = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const grace = 72 * time.Hour

// made is a root of its own, born at a time.
func made(t *testing.T, at time.Time) *material {
	t.Helper()
	root, err := newRoot(at)
	if err != nil {
		t.Fatal(err)
	}
	return &material{signing: root, trusted: []*x509.Certificate{root.cert}}
}

// advance takes the steps of a moment, over the Secret's data as a replica does that
// reads it anew each time.
func advance(t *testing.T, m *material, ask asked, at time.Time) []Stage {
	t.Helper()
	taken, err := m.advance(ask, at, grace)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{"other": []byte("stays")}
	if err := m.writeTo(data); err != nil {
		t.Fatal(err)
	}
	again, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if string(data["other"]) != "stays" {
		t.Error("a key that is not the authority's was dropped")
	}
	*m = *again
	return taken
}

func TestAdvance(t *testing.T) {
	rotate, retire := asked{rotate: true}, asked{retire: true}
	type moment struct {
		after time.Duration
		ask   asked
		want  []Stage
	}
	for name, moments := range map[string][]moment{
		"a young root that nobody speaks of stays": {{after: time.Hour}, {after: rootLifetime / 2}},
		"a root that is asked to go is followed by another after the grace": {
			{after: time.Hour, ask: rotate, want: []Stage{StageDistributing}},
			{after: time.Hour + grace - time.Second},
			{after: time.Hour + grace, want: []Stage{StageSigning}},
			{after: time.Hour + 2*grace},
		},
		"two thirds of its life are enough without being asked": {
			{after: rootLifetime/3*2 - 2*backdate},
			{after: rootLifetime / 3 * 2, want: []Stage{StageDistributing}},
			{after: rootLifetime/3*2 + grace, want: []Stage{StageSigning}},
		},
		"a rotation that is under way is not begun twice": {
			{after: time.Hour, ask: rotate, want: []Stage{StageDistributing}},
			{after: 2 * time.Hour, ask: rotate},
		},
		"the root before is trusted until its end": {
			{after: time.Hour, ask: rotate, want: []Stage{StageDistributing}},
			{after: time.Hour + grace, want: []Stage{StageSigning}},
			{after: rootLifetime / 2},
			{after: rootLifetime + time.Second, want: []Stage{StageDistributing, StageRetired}},
		},
		"a person can retire it before that": {
			{after: time.Hour, ask: rotate, want: []Stage{StageDistributing}},
			{after: time.Hour + grace, want: []Stage{StageSigning}},
			{after: 2*time.Hour + grace, ask: retire, want: []Stage{StageRetired}},
			{after: 2*time.Hour + grace, ask: retire},
		},
		"a person can retire it before the coming one signs": {
			{after: time.Hour, ask: rotate, want: []Stage{StageDistributing}},
			{after: 2 * time.Hour, ask: retire, want: []Stage{StageSigning, StageRetired}},
		},
		"a key that is stolen is of no use at once": {
			{after: time.Hour, ask: asked{rotate: true, retire: true}, want: []Stage{StageDistributing, StageSigning, StageRetired}},
		},
		"to retire the only root changes nothing": {{after: time.Hour, ask: retire}},
		"a hub that was away past the end of its root gets another": {
			{after: rootLifetime + time.Hour, want: []Stage{StageDistributing}},
			{after: rootLifetime + time.Hour + grace, want: []Stage{StageSigning, StageRetired}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := made(t, birth)
			for _, at := range moments {
				if diff := cmp.Diff(at.want, advance(t, m, at.ask, birth.Add(at.after))); diff != "" {
					t.Fatalf("after %s (-want +got):\n%s", at.after, diff)
				}
			}
		})
	}
}

// verifies says whether a spoke that knows some roots, of its installation and of its
// last session, accepts the hub.
func verifies(t *testing.T, m *material, at time.Time, knows ...*x509.Certificate) bool {
	t.Helper()
	shown, err := m.authority("fleet.example", false).SignServer([]string{"hub"}, at)
	if err != nil {
		t.Fatal(err)
	}
	roots, links := x509.NewCertPool(), x509.NewCertPool()
	for _, cert := range knows {
		roots.AddCert(cert)
	}
	for _, der := range shown.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		links.AddCert(cert)
	}
	_, err = shown.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: links, DNSName: "hub", CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err == nil
}

// A spoke that knows any root that was trusted once verifies the hub at every stage,
// over two rotations, and its own certificate is verified; one that knows a stranger
// never does.
func TestAdvance_NoStageLocksASpokeOut(t *testing.T) {
	m, stranger := made(t, birth), made(t, birth)
	first := m.signing.cert
	client := func(of *material, at time.Time) *x509.Certificate {
		cert, err := of.authority("fleet.example", false).SignSpoke(stranger.signing.key.Public(), "prod", at, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	known := map[string]*x509.Certificate{"first": first}
	check := func(stage string, at time.Time) {
		t.Helper()
		for name, root := range known {
			if !verifies(t, m, at, root) {
				t.Errorf("%s: a spoke that knows the %s root alone does not verify the hub", stage, name)
			}
		}
		if verifies(t, m, at, stranger.signing.cert) {
			t.Errorf("%s: a spoke of another hub verifies this one", stage)
		}
	}
	at := birth.Add(time.Hour)
	check("at first", at)
	for _, coming := range []string{"second", "third"} {
		advance(t, m, asked{rotate: true}, at)
		check(coming+" distributed", at)
		before := client(m, at.Add(grace))
		at = at.Add(grace)
		advance(t, m, asked{}, at)
		known[coming] = m.signing.cert
		check(coming+" signing", at)
		for when, cert := range map[string]*x509.Certificate{"before": before, "after": client(m, at)} {
			if _, err := cert.Verify(x509.VerifyOptions{
				Roots: m.authority("fleet.example", false).Roots(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			}); err != nil {
				t.Errorf("%s signing: a spoke's certificate of %s it did is not accepted: %v", coming, when, err)
			}
		}
	}
	advance(t, m, asked{retire: true}, at)
	for name, root := range known {
		if got := verifies(t, m, at, root); got != (name == "third") {
			t.Errorf("retired: a spoke that knows the %s root alone verifies the hub: %v", name, got)
		}
	}
	if len(m.trusted) != 1 || len(m.links) != 0 {
		t.Errorf("retired: %d roots and %d links are left", len(m.trusted), len(m.links))
	}
}

// The coming root is trusted and does not sign; the one before is trusted and its key
// is gone.
func TestAdvance_WhatTheSecretHolds(t *testing.T) {
	m, data := made(t, birth), map[string][]byte{}
	old := m.signing
	oldKey, err := encodeKey(old.key)
	if err != nil {
		t.Fatal(err)
	}
	advance(t, m, asked{rotate: true}, birth)
	if !m.signing.cert.Equal(old.cert) || m.next == nil || len(m.bundle()) != 2 {
		t.Errorf("distributing: the old root signs: %v; coming: %v; %d roots", m.signing.cert.Equal(old.cert), m.next != nil, len(m.bundle()))
	}
	coming := m.next.cert
	advance(t, m, asked{}, birth.Add(grace))
	if err := m.writeTo(data); err != nil {
		t.Fatal(err)
	}
	if !m.signing.cert.Equal(coming) || !slices.ContainsFunc(m.bundle(), old.cert.Equal) {
		t.Error("signing: the coming root does not sign, or the old one is not trusted")
	}
	if keys := slices.Sorted(maps.Keys(data)); !slices.Equal(keys, []string{"ca.crt", "tls.crt", "tls.key"}) {
		t.Errorf("signing: the Secret holds %v", keys)
	}
	if slices.Equal(data["tls.key"], oldKey) {
		t.Error("signing: the key of the root before is still there")
	}
}

// What an authority signs ends with it at the latest.
func TestAuthority_SignsNothingThatOutlivesIt(t *testing.T) {
	m := made(t, birth)
	at := m.signing.cert.NotAfter.Add(-time.Minute)
	cert, err := m.authority("fleet.example", false).SignSpoke(m.signing.key.Public(), "prod", at, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if !cert.NotAfter.Equal(m.signing.cert.NotAfter) {
		t.Errorf("it ends at %s, its root at %s", cert.NotAfter, m.signing.cert.NotAfter)
	}
}
