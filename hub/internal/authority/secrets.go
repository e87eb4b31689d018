package authority

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

const (
	// CASecret holds the hub's own root: tls.crt, tls.key, and in ca.crt every root to
	// trust.
	CASecret = "dynamic-config-hub-ca"
	// ContentKeySecret holds the key of content IDs.
	ContentKeySecret = "dynamic-config-hub-content-key"
	// CAConfigMap publishes ca.crt for people and installers. It holds no secret.
	CAConfigMap = "dynamic-config-hub-ca"

	contentKey     = "key"
	contentKeySize = 32
)

// Secrets are what all replicas of a hub share.
type Secrets struct {
	Authority  *Live
	ContentKey []byte
}

// Load reads the hub's Secrets, and makes those of its own that are missing. Of two
// replicas that do so at once one wins and both use its.
func Load(ctx context.Context, cfg Config) (*Secrets, error) {
	live := &Live{cfg: cfg}
	if cfg.External == "" {
		if _, err := loadOrCreate(ctx, &cfg, CASecret, corev1.SecretTypeTLS, func() (map[string][]byte, error) {
			cert, key, err := NewRoot(cfg.Now())
			return map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, bundleKey: cert}, err
		}); err != nil {
			return nil, err
		}
	}
	if err := live.Refresh(ctx); err != nil {
		return nil, err
	}
	content, err := loadOrCreate(ctx, &cfg, ContentKeySecret, corev1.SecretTypeOpaque, func() (map[string][]byte, error) {
		key := make([]byte, contentKeySize)
		_, err := rand.Read(key)
		return map[string][]byte{contentKey: key}, err
	})
	if err != nil {
		return nil, err
	}
	if len(content[contentKey]) < contentKeySize {
		return nil, fmt.Errorf("secret %s/%s: key has %d bytes, needs %d", cfg.Namespace, ContentKeySecret, len(content[contentKey]), contentKeySize)
	}
	return &Secrets{Authority: live, ContentKey: content[contentKey]}, nil
}

func loadOrCreate(ctx context.Context, cfg *Config, name string, kind corev1.SecretType, generate func() (map[string][]byte, error)) (map[string][]byte, error) {
	// The client logs bodies of answers, at a level that a person might choose.
	ctx = ctrl.LoggerInto(ctx, logr.Discard())
	c, key := cfg.Client, client.ObjectKey{Namespace: cfg.Namespace, Name: name}
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	if err == nil {
		return secret.Data, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	data, err := generate()
	if err != nil {
		return nil, err
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: "dynamic-config-hub"}},
		Type:       kind, Data: data,
	}
	if err = c.Create(ctx, made); apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, key, secret)
		return secret.Data, err
	}
	return data, err
}

// publish writes the roots to a ConfigMap, where installers find them. Replicas that
// start together write the same.
func publish(ctx context.Context, c client.Client, namespace string, bundle []byte) error {
	return retry.OnError(retry.DefaultRetry, wroteTogether, func() error { return tryPublish(ctx, c, namespace, bundle) })
}

func wroteTogether(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

func tryPublish(ctx context.Context, c client.Client, namespace string, bundle []byte) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: CAConfigMap}}
	want := map[string]string{bundleKey: string(bundle)}
	err := c.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	switch {
	case apierrors.IsNotFound(err):
		cm.Data = want
		return c.Create(ctx, cm)
	case err != nil:
		return err
	case cm.Data[bundleKey] == want[bundleKey]:
		return nil
	}
	cm.Data = want
	return c.Update(ctx, cm)
}
