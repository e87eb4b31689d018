package classes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// Defaults of spec.limits: gentle on a small store, and enough for 1,000 documents
// to be current within a minute.
const (
	defaultRequestsPerSecond = 20
	defaultBurst             = 40
	defaultConcurrency       = 8
	// cachedPerSecond is the default for a source that is read from the hub's own
	// cache: it costs nobody else anything.
	cachedPerSecond = 1000
)

// ErrNotFound says that the hub has no such class.
var ErrNotFound = errors.New("class not found")

// MissingError says that a Secret, or a key in it, does not exist. Its text is for
// tenants and does not name it.
type MissingError struct{ Namespace, Name, Key string }

// Error does not say where the hub keeps its credentials.
func (*MissingError) Error() string {
	return "the class names a Secret, or a key in it, that does not exist on the hub"
}

// ForOwner is the same for the class's owner, who named it.
func (e *MissingError) ForOwner() string {
	return fmt.Sprintf("secret %s/%s, or its key %s, does not exist", e.Namespace, e.Name, e.Key)
}

// Credential is what a class opens its store with.
type Credential struct {
	// Token is empty where the class names no credential.
	Token string
	// CAPEM is empty where the class names no CA.
	CAPEM []byte
	// CertPEM and KeyPEM are empty where the class names no client certificate.
	CertPEM, KeyPEM []byte
}

// Opener opens a class's store.
type Opener func(c *Class, cred Credential) (store.Reader, error)

// Resolver finds classes and opens their sources.
type Resolver struct {
	// Objects reads classes from the hub's cache.
	Objects client.Reader
	// Secrets reads one key of a Secret of the hub cluster.
	Secrets SecretReader
	// Open opens stores.
	Open Opener
}

// SecretReader reads a Secret's data; nil data and no error for one that is missing.
type SecretReader interface {
	Data(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Find reads a class from the hub's cache; ErrNotFound where there is none.
func (r *Resolver) Find(ctx context.Context, ref Ref) (*Class, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if ref.Kind == v1alpha1.ClassKindCluster {
		o := &v1alpha1.ClusterDynamicConfigClass{}
		if err := r.Objects.Get(ctx, key, o); err != nil {
			return nil, notFound(ref, err)
		}
		return fromCluster(o), nil
	}
	if ref.Kind != v1alpha1.ClassKindNamespaced {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, ref)
	}
	o := &v1alpha1.DynamicConfigClass{}
	if err := r.Objects.Get(ctx, key, o); err != nil {
		return nil, notFound(ref, err)
	}
	return fromNamespaced(o), nil
}

// All reads every class of both kinds from the hub's cache.
func (r *Resolver) All(ctx context.Context) ([]*Class, error) {
	var cluster v1alpha1.ClusterDynamicConfigClassList
	if err := r.Objects.List(ctx, &cluster); err != nil {
		return nil, err
	}
	var namespaced v1alpha1.DynamicConfigClassList
	if err := r.Objects.List(ctx, &namespaced); err != nil {
		return nil, err
	}
	all := make([]*Class, 0, len(cluster.Items)+len(namespaced.Items))
	for i := range cluster.Items {
		all = append(all, fromCluster(&cluster.Items[i]))
	}
	for i := range namespaced.Items {
		all = append(all, fromNamespaced(&namespaced.Items[i]))
	}
	return all, nil
}

// Source is the feed's source of a class: its store with the credential of this
// moment. A missing Secret or key is a *store.Error with CredentialNotFound, of a CA
// with StoreTLSFailed.
func (r *Resolver) Source(ctx context.Context, c *Class) (feed.Source, error) {
	var cred Credential
	var token []byte
	for _, part := range []struct {
		from    *secretKey
		missing string
		to      *[]byte
	}{
		{c.token, v1alpha1.ReasonCredentialNotFound, &token},
		{c.ca, v1alpha1.ReasonStoreTLSFailed, &cred.CAPEM},
		{c.cert, v1alpha1.ReasonCredentialNotFound, &cred.CertPEM},
		{c.key, v1alpha1.ReasonCredentialNotFound, &cred.KeyPEM},
	} {
		var err error
		if *part.to, err = r.read(ctx, part.from, part.missing); err != nil {
			return feed.Source{}, err
		}
	}
	cred.Token = strings.TrimSpace(string(token))
	return feed.Source{
		ID: c.Ref.String(), Revision: c.revision + "." + digest(token, cred.CAPEM, cred.CertPEM, cred.KeyPEM), Limits: limitsOf(&c.Spec),
		Open: func() (store.Reader, error) { return r.Open(c, cred) },
	}, nil
}

func (r *Resolver) read(ctx context.Context, s *secretKey, missing string) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	data, err := r.Secrets.Data(ctx, s.namespace, s.name)
	if err != nil {
		return nil, fmt.Errorf("read secret %s/%s: %w", s.namespace, s.name, err)
	}
	if len(data[s.key]) == 0 {
		return nil, &store.Error{Reason: missing, Op: store.OpOpen, Err: &MissingError{Namespace: s.namespace, Name: s.name, Key: s.key}}
	}
	return data[s.key], nil
}

func limitsOf(spec *v1alpha1.ClassCommon) feed.Limits {
	l := spec.Limits
	if l == nil {
		l = &v1alpha1.ClassLimits{}
	}
	perSecond, burst := defaultRequestsPerSecond, defaultBurst
	if spec.Source == v1alpha1.SourceKubernetes {
		perSecond, burst = cachedPerSecond, cachedPerSecond
	}
	or := func(v *int32, fallback int) int {
		if v == nil {
			return fallback
		}
		return int(*v)
	}
	return feed.Limits{
		RequestsPerSecond: or(l.RequestsPerSecond, perSecond), Burst: or(l.Burst, burst),
		Concurrency: or(l.Concurrency, defaultConcurrency), MinInterval: time.Duration(or(l.MinIntervalSeconds, 0)) * time.Second,
	}
}

func notFound(ref Ref, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %s", ErrNotFound, ref)
	}
	return err
}

func revisionOf(o client.Object) string {
	return fmt.Sprintf("%s.%d", o.GetUID(), o.GetGeneration())
}

// digest tells credentials apart; it stays in memory.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
