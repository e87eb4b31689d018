package authority

import (
	"crypto/x509"
	"slices"
	"time"
)

// offlineAllowance is how long a spoke may be away and still learn of a coming root
// before that signs: a weekend. One that is away for longer verifies the hub by way of
// the root it knows.
const offlineAllowance = 48 * time.Hour

// GraceFor is how long a new root is told to spokes before it signs, for a lifetime of
// their certificates.
func GraceFor(lifetime time.Duration) time.Duration { return lifetime + offlineAllowance }

// Stage is a step of a rotation that was taken.
type Stage string

// The stages.
const (
	StageDistributing Stage = "Distributing" // a new root is trusted
	StageSigning      Stage = "Signing"      // it signs
	StageRetired      Stage = "Retired"      // older roots are trusted no more
)

// asked is what a person asks for.
type asked struct {
	// rotate begins a rotation, unless one is under way.
	rotate bool
	// retire lets the newest root alone count, from now on.
	retire bool
}

// advance takes every step of a rotation that is due, and says which.
func (m *material) advance(ask asked, now time.Time, grace time.Duration) ([]Stage, error) {
	var taken []Stage
	if m.next == nil && (ask.rotate || !now.Before(rotationDue(m.signing.cert))) {
		next, err := newRoot(now)
		if err != nil {
			return nil, err
		}
		m.next = &next
		taken = append(taken, StageDistributing)
	}
	if m.next != nil && (ask.retire || !now.Before(m.next.cert.NotBefore.Add(backdate+grace))) {
		if err := m.switchOver(now); err != nil {
			return nil, err
		}
		taken = append(taken, StageSigning)
	}
	if m.retire(now, ask.retire) {
		taken = append(taken, StageRetired)
	}
	return taken, nil
}

// rotationDue is two thirds of a root's life: what is left is longer than anything
// that a root signs.
func rotationDue(root *x509.Certificate) time.Time {
	return root.NotBefore.Add(root.NotAfter.Sub(root.NotBefore) / 3 * 2)
}

// switchOver lets the coming root sign. The key of the one before signs for the last
// time, and then is gone.
func (m *material) switchOver(now time.Time) error {
	old, coming := m.signing, *m.next
	m.trusted = m.bundle()
	m.signing, m.next = coming, nil
	if !now.Before(old.cert.NotAfter) {
		return nil // nobody can go by a root that is over
	}
	link, err := certify(&x509.Certificate{
		SerialNumber: serial(), Subject: coming.cert.Subject, SubjectKeyId: coming.cert.SubjectKeyId,
		NotBefore: now.Add(-backdate), NotAfter: earlier(old.cert.NotAfter, coming.cert.NotAfter),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: coming.cert.KeyUsage,
	}, old.cert, coming.cert.PublicKey, old.key)
	if err != nil {
		return err
	}
	m.links = append([]*x509.Certificate{link}, m.links...)
	return nil
}

// retire drops the roots and links that are over, or all but what signs and what will.
func (m *material) retire(now time.Time, all bool) bool {
	over := func(cert *x509.Certificate) bool { return all || now.After(cert.NotAfter) }
	current := func(cert *x509.Certificate) bool {
		return cert.Equal(m.signing.cert) || (m.next != nil && cert.Equal(m.next.cert))
	}
	before := len(m.trusted) + len(m.links)
	m.links = slices.DeleteFunc(m.links, over)
	m.trusted = slices.DeleteFunc(m.trusted, func(cert *x509.Certificate) bool { return over(cert) && !current(cert) })
	return len(m.trusted)+len(m.links) < before
}
