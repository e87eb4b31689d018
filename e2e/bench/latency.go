package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

const (
	namespace = "bench"
	// latencyDocuments take turns, latencyRate a second, so that nothing changes more
	// often than the hub asks for it: a way is timed, and no bound.
	latencyDocuments = 20
	latencyRate      = 1
	latencySettle    = 10 * time.Second
	bareKey          = "bench-bare/doc"
)

// latency times a change in Consul to the readable Secret of a real agent, and, in
// turns with it, the same through the least program that can do it: one blocking query
// and one apply.
func latency(ctx context.Context, r *rig) error {
	spoke := r.stage.Spokes[0]
	if err := r.prepare(ctx, spoke.Client); err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(spoke.Config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() error { return r.bare(ctx, spoke.Client) })
	group.Go(func() error {
		defer stop()
		return r.timeChanges(ctx, typed)
	})
	return group.Wait()
}

// prepare makes the Renders of the real agent.
func (r *rig) prepare(ctx context.Context, c client.Client) error {
	if err := r.put(ctx, latencyDocuments, "0"); err != nil {
		return err
	}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	for n := range latencyDocuments {
		if err := c.Create(ctx, &v1alpha1.DynamicConfigRender{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: target(n)},
			Spec: v1alpha1.DynamicConfigRenderSpec{
				Class: className, ClassKind: v1alpha1.ClassKindCluster, Key: document(n),
				Target: v1alpha1.RenderTarget{Secret: target(n), Shape: v1alpha1.ShapeEntries},
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

func target(n int) string { return fmt.Sprintf("target-%d", n) }

// timeChanges changes one document after the other, the product's and the bare one's.
func (r *rig) timeChanges(ctx context.Context, c kubernetes.Interface) error {
	events, err := c.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer events.Stop()
	secrets := &versions{events: events, held: map[string]string{}}
	for n := range latencyDocuments {
		if err := secrets.await(ctx, target(n), "0"); err != nil {
			return err
		}
	}
	// The hub divides what it follows once no new document comes, which costs queries.
	select {
	case <-time.After(latencySettle):
	case <-ctx.Done():
		return ctx.Err()
	}
	var product, bare []time.Duration
	pace := rate.NewLimiter(latencyRate, 1)
	for i := 1; i <= r.changes; i++ {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		version, n := fmt.Sprint(i), i%latencyDocuments
		took, err := r.change(ctx, secrets, document(n), content(n, version), target(n), version)
		if err != nil {
			return err
		}
		product = append(product, took)
		if took, err = r.change(ctx, secrets, bareKey, version, "bare", version); err != nil {
			return err
		}
		bare = append(bare, took)
	}
	p50, p99 := r.report.percentiles("latency", "Consul to Secret, hub and agent", product)
	bare50, bare99 := r.report.percentiles("latency", "Consul to Secret, one query and one apply", bare)
	r.report.add("latency", "p50 against the bare program (goal 1.5)", p50.Seconds()/bare50.Seconds(), "x")
	r.report.add("latency", "p99 against the bare program (goal 3)", p99.Seconds()/bare99.Seconds(), "x")
	return nil
}

func (r *rig) change(ctx context.Context, secrets *versions, key, value, name, version string) (time.Duration, error) {
	began := time.Now()
	if err := r.consul.Put(ctx, key, value); err != nil {
		return 0, err
	}
	err := secrets.await(ctx, name, version)
	return time.Since(began), err
}

// versions are what the Secrets of a namespace hold, as a watch tells it.
type versions struct {
	events watch.Interface
	held   map[string]string
}

// await waits until a Secret holds a version.
func (v *versions) await(ctx context.Context, name, version string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for v.held[name] != version {
		select {
		case <-ctx.Done():
			return fmt.Errorf("secret %s does not hold version %s: %w", name, version, ctx.Err())
		case event, ok := <-v.events.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended before secret %s held version %s", name, version)
			}
			if s, ok := event.Object.(*corev1.Secret); ok {
				v.held[s.Name] = string(s.Data["version"])
			}
		}
	}
	return nil
}

// bare is the floor: a blocking query, an apply, and again.
func (r *rig) bare(ctx context.Context, c client.Client) error {
	for index := "0"; ctx.Err() == nil; {
		value, next, err := r.block(ctx, index)
		if err != nil {
			return unlessOver(ctx, err)
		}
		if next == index || value == "" {
			index = next
			continue
		}
		index = next
		secret := corev1ac.Secret("bare", namespace).WithData(map[string][]byte{"version": []byte(value)})
		if err := c.Apply(ctx, secret, client.FieldOwner("bare")); err != nil {
			return unlessOver(ctx, err)
		}
	}
	return nil
}

// unlessOver is the error, unless the work was told to end.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// block waits for the next version of the bare program's document.
func (r *rig) block(ctx context.Context, index string) (value, next string, err error) {
	query := url.Values{"index": {index}, "wait": {"1m"}, "raw": {""}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.consul.Addr+"/v1/kv/"+bareKey+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return "", "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusNotFound {
		text = nil
	}
	return strings.TrimSpace(string(text)), resp.Header.Get("X-Consul-Index"), err
}
