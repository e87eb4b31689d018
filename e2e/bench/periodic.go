package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

const (
	vaultClass = "bench-vault"
	// busySpokes times busyRenders documents are polled, at more than the class's rate.
	busySpokes, busyRenders = 100, 100
	busyInterval            = 15 * time.Second
	vaultWriters            = 16
)

// periodic measures a Render that is new behind ten thousand documents of Vault, all of
// them polled, at a class whose rate they more than use up.
func periodic(ctx context.Context, r *rig) (err error) {
	vault, err := testenv.StartVault(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vault.Stop()) }()
	if err := r.fillVault(ctx, vault); err != nil {
		return err
	}
	f, err := r.connect(ctx, "periodic", busySpokes, busyRenders, func(spoke, n int) *fleetv1.RenderSpec {
		return polled(n, vaultDocument(spoke*busyRenders+n))
	})
	if err != nil {
		return err
	}
	if err := f.current(ctx); err != nil {
		return err
	}
	const phase = "periodic"
	r.report.seconds(phase, "10,000 documents of Vault, until all are current", time.Since(f.began))
	var took []time.Duration
	for n := range newRenders {
		began := time.Now()
		if err := arrived(ctx, f.spokes[n], polled(busyRenders, vaultDocument(busySpokes*busyRenders+n))); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	r.report.percentiles(phase, "a new Render behind 10,000 polled ones (goal 2000 ms)", took)
	return f.leave(ctx)
}

func vaultDocument(n int) string { return fmt.Sprintf("secret/bench/doc-%05d", n) }

func polled(n int, key string) *fleetv1.RenderSpec {
	s := spec(n, key)
	s.Class, s.Interval = vaultClass, durationpb.New(busyInterval)
	return s
}

// fillVault writes the documents, and the class that serves them.
func (r *rig) fillVault(ctx context.Context, vault *testenv.VaultServer) error {
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(vaultWriters)
	for n := range busySpokes*busyRenders + newRenders {
		group.Go(func() error {
			body := map[string]any{"data": map[string]any{"number": fmt.Sprint(n)}}
			return vault.Call(writing, http.MethodPost, "secret/data"+vaultDocument(n)[len("secret"):], body, nil)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	credential := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: vaultClass},
		StringData: map[string]string{v1alpha1.DefaultTokenKey: vault.Token},
	}
	if err := r.stage.Hub.Client.Create(ctx, credential); err != nil {
		return err
	}
	c := class(vault.Addr)
	c.Name, c.Spec.Source = vaultClass, v1alpha1.SourceVault
	c.Spec.TokenSecret = &v1alpha1.SecretReference{Namespace: credential.Namespace, Name: credential.Name}
	return r.stage.Hub.Client.Create(ctx, c)
}
