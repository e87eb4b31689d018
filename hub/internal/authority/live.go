package authority

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/hub/internal/audit"
)

// What a person sets on the CA Secret, to any value that was not there before, and
// what the hub answers with when it did it.
const (
	// AnnotationRotate asks for a new root.
	AnnotationRotate = "dynamic-config.rs/rotate-requested-at"
	// AnnotationRetire asks that the newest root alone counts, from now on: older
	// ones are trusted no more, and a coming one signs at once.
	AnnotationRetire = "dynamic-config.rs/retire-requested-at"

	annotationRotateHandled = "dynamic-config.rs/rotate-handled"
	annotationRetireHandled = "dynamic-config.rs/retire-handled"
)

// lookInterval is how soon a replica sees that the CA Secret changed: one small read,
// and far below any time of grace.
const lookInterval = 10 * time.Second

// Config says where the hub's certificate authority is kept.
type Config struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace of the hub's own Secrets.
	Namespace string
	// TrustDomain of the identities.
	TrustDomain string
	// External is the name of a Secret of type kubernetes.io/tls that somebody else
	// keeps, cert-manager for instance. It is followed and never written. When empty,
	// the hub keeps its own, CASecret.
	External string
	// Grace is how long a new root is told to spokes before it signs.
	Grace time.Duration
	// Now is the clock.
	Now func() time.Time
	// Audit takes the stages of rotations; nil for none.
	Audit *audit.Log
}

func (c *Config) secret() client.ObjectKey {
	if c.External != "" {
		return client.ObjectKey{Namespace: c.Namespace, Name: c.External}
	}
	return client.ObjectKey{Namespace: c.Namespace, Name: CASecret}
}

// Live is the authority that the CA Secret describes, as it is now. It is safe for
// concurrent use.
type Live struct {
	cfg     Config
	current atomic.Pointer[Authority]
	seen    string // the Secret's resource version; of Refresh, which has one caller
}

var _ Source = (*Live)(nil)

// Current is the authority of the last good reading.
func (l *Live) Current() *Authority { return l.current.Load() }

// Roots are what a client certificate must chain to now. The pool is not to be
// changed.
func (l *Live) Roots() *x509.CertPool { return l.Current().Roots() }

// BundleDER is every root that a spoke should accept of a hub from now on.
func (l *Live) BundleDER() [][]byte { return l.Current().BundleDER() }

// TrustDomain is the domain of the identities that the authority signs.
func (l *Live) TrustDomain() string { return l.cfg.TrustDomain }

// SignSpoke certifies a cluster's key; see Authority.
func (l *Live) SignSpoke(public crypto.PublicKey, cluster string, now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	return l.Current().SignSpoke(public, cluster, now, lifetime)
}

// Run follows the Secret until the context ends. What cannot be read or used leaves
// the authority as it was.
func (l *Live) Run(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("authority")
	for {
		// Replicas that started together do not look together.
		wait := lookInterval/2 + rand.N(lookInterval) //nolint:gosec // G404: spreads load, guards nothing
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if err := l.Refresh(ctrl.LoggerInto(ctx, log)); err != nil && ctx.Err() == nil {
			log.Error(err, "Reading the certificate authority failed", "secret", l.cfg.secret().String())
		}
	}
}

// Refresh reads the Secret, takes the steps of a rotation that are due, and takes up
// and publishes what it says then.
func (l *Live) Refresh(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx)
	// The client logs bodies of answers, at a level that a person might choose.
	ctx = ctrl.LoggerInto(ctx, logr.Discard())
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return l.refresh(ctx, log) })
}

func (l *Live) refresh(ctx context.Context, log logr.Logger) error {
	secret := &corev1.Secret{}
	if err := l.cfg.Client.Get(ctx, l.cfg.secret(), secret); err != nil {
		return err
	}
	m, err := parse(secret.Data)
	if err != nil {
		return fmt.Errorf("secret %s: %w", l.cfg.secret(), err)
	}
	if l.cfg.External == "" {
		err = l.rotate(ctx, log, secret, m)
	} else if len(m.trusted) == 0 {
		err = errors.New("secret " + l.cfg.secret().String() + ": ca.crt is empty")
	}
	if err != nil || secret.ResourceVersion == l.seen {
		return err
	}
	now := m.authority(l.cfg.TrustDomain, l.cfg.External != "")
	l.current.Store(now)
	if err := publish(ctx, l.cfg.Client, l.cfg.Namespace, encodeCertificates(now.bundle...)); err != nil {
		return err
	}
	l.seen = secret.ResourceVersion
	return nil
}

// rotate writes the steps that are due to the Secret. Where another replica wrote in
// between it fails with a conflict and has changed nothing.
func (l *Live) rotate(ctx context.Context, log logr.Logger, secret *corev1.Secret, m *material) error {
	request, retirement := secret.Annotations[AnnotationRotate], secret.Annotations[AnnotationRetire]
	ask := asked{
		rotate: request != secret.Annotations[annotationRotateHandled],
		retire: retirement != secret.Annotations[annotationRetireHandled],
	}
	taken, err := m.advance(ask, l.cfg.Now(), l.cfg.Grace)
	if err != nil || (len(taken) == 0 && !ask.rotate && !ask.retire) {
		return err
	}
	if err := m.writeTo(secret.Data); err != nil {
		return err
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[annotationRotateHandled], secret.Annotations[annotationRetireHandled] = request, retirement
	if err := l.cfg.Client.Update(ctx, secret); err != nil {
		return err
	}
	for _, stage := range taken {
		l.cfg.Audit.Authority(ctx, string(stage))
		log.Info("The root of the certificate authority moved on", "stage", string(stage), "signsUntil", m.signing.cert.NotAfter)
	}
	return nil
}
