package render_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// live reads from the API server past the cache, unless that is away.
type live struct {
	client.Reader
	away   atomic.Bool
	failed atomic.Int64
}

func (l *live) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if l.away.Load() {
		l.failed.Add(1)
		return errors.New("connection refused")
	}
	return l.Reader.Get(ctx, key, object, opts...)
}

// While a credential cannot be read, that is no verdict. A Render that was looked at ever so
// often meanwhile has its document soon after: client-go's own delays would have grown to
// a quarter of an hour.
func TestReconcile_AnOutageOfTheAPIServerIsOverSoonHoweverOftenItWasMet(t *testing.T) {
	const looks = 20
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: unique(t), Name: "token"}, StringData: map[string]string{"token": canary},
	}
	create(t, token)
	c, documents := class(t, func(c *v1alpha1.ClusterDynamicConfigClass) {
		c.Spec.TokenSecret = &v1alpha1.SecretReference{Namespace: token.Namespace, Name: token.Name}
	})
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: token.Namespace, Name: token.Name}}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	known(t, metadata)
	documents.Put("app.json", document)

	hub.live.away.Store(true)
	defer hub.live.away.Store(false)
	fails := func(after func()) {
		t.Helper()
		before := hub.live.failed.Load()
		after()
		g.Eventually(hub.live.failed.Load).Should(gomega.BeNumerically(">", before), "it is not looked at")
	}
	s, render := newSpoke(t), web(c.Name)
	for range looks {
		render = render.DeepCopy()
		render.Generation++
		fails(func() { s.says(render) })
	}
	fails(func() {}) // by itself
	if a, told := hub.outbox.answer(s.name, "shop/web"); told {
		t.Errorf("what cannot be read is a verdict: %+v", a)
	}
	hub.live.away.Store(false)
	s.has(`"one"`)
}
