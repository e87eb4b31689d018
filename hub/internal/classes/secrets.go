package classes

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secrets reads the Secrets that classes name: the version from a cache of
// metadata, the data live when the version moved. It is safe for concurrent use.
type Secrets struct {
	metadata client.Reader
	live     client.Reader

	// mu guards read. It is bounded by the number of Secrets that classes name.
	mu   sync.Mutex
	read map[client.ObjectKey]*corev1.Secret
}

var _ SecretReader = (*Secrets)(nil)

// NewSecrets returns a reader over a cache of metadata and a live reader.
func NewSecrets(metadata, live client.Reader) *Secrets {
	return &Secrets{metadata: metadata, live: live, read: map[client.ObjectKey]*corev1.Secret{}}
}

// Data is the data of a Secret; nil for one that is missing.
func (s *Secrets) Data(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := s.metadata.Get(ctx, key, meta); err != nil {
		s.forget(key)
		return nil, client.IgnoreNotFound(err)
	}
	s.mu.Lock()
	had := s.read[key]
	s.mu.Unlock()
	if had != nil && had.UID == meta.UID && had.ResourceVersion == meta.ResourceVersion {
		return had.Data, nil
	}
	secret := &corev1.Secret{}
	// The client logs bodies of answers, at a level that a person might choose.
	if err := s.live.Get(ctrl.LoggerInto(ctx, logr.Discard()), key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			s.forget(key)
			return nil, nil
		}
		return nil, err
	}
	s.mu.Lock()
	s.read[key] = secret
	s.mu.Unlock()
	return secret.Data, nil
}

func (s *Secrets) forget(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, key)
}
