package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

const (
	// movesPerSecond is faster than the fleet settles, and slow enough that each move
	// is seen by something.
	movesPerSecond = 10
	// settle is how long the fleet may take to be right once nothing moves.
	settle = 90 * time.Second
	// calm is how long it must stay right then.
	calm = 3 * time.Second
	// look is how often it is compared.
	look = 500 * time.Millisecond
)

// Store is where the documents are.
type Store interface {
	Put(ctx context.Context, key, value string) error
	Delete(ctx context.Context, key string) error
}

// Config says what a run plays on.
type Config struct {
	Stage *stage.Stage
	// Store is a Consul server at Endpoint, which wants Token; empty for none.
	Store           Store
	Endpoint, Token string
	// Seed tells the moves; For how long they are made.
	Seed uint64
	For  time.Duration
	// Log takes a line for every move.
	Log func(format string, args ...any)
}

// Report is what a run did and found.
type Report struct {
	// Moves made, by kind.
	Moves map[string]int
	// Renders and Targets compared at the end.
	Renders, Targets int
	// Settled is how long the fleet took to be right.
	Settled time.Duration
	// Mismatches at the end; none when all is well.
	Mismatches []string
}

// run is one run under way.
type run struct {
	Config
	world  *World
	rng    *rand.Rand
	report Report
	made   int // Renders made so far, which names the next
	hubs   []process
	down   map[string]bool // processes
	silent map[string]bool // backends of the proxy
}

// Run makes moves, puts everything back to work, and compares.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r := &run{
		Config: cfg, world: newWorld(cfg.Seed), down: map[string]bool{}, silent: map[string]bool{}, hubs: hubProcesses(cfg.Stage.Hub),
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0)), //nolint:gosec // G404: a replay needs the same numbers
		report: Report{Moves: map[string]int{}},
	}
	if err := r.setUp(ctx); err != nil {
		return r.report, err
	}
	if err := r.play(ctx); err != nil {
		return r.report, err
	}
	if err := r.repair(ctx); err != nil {
		return r.report, err
	}
	err := r.compare(ctx)
	return r.report, errors.Join(err, r.cleanUp(ctx))
}

func (r *run) setUp(ctx context.Context) error {
	for _, spoke := range r.Stage.Spokes {
		for _, ns := range r.world.namespaces {
			if err := spoke.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
				return err
			}
		}
	}
	for n := range documents {
		if err := r.write(ctx, documentKey(n)); err != nil {
			return err
		}
	}
	credential := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: className},
		StringData: map[string]string{v1alpha1.DefaultTokenKey: r.Token},
	}
	if err := r.Stage.Hub.Client.Create(ctx, credential); err != nil {
		return err
	}
	return r.Stage.Hub.Client.Create(ctx, r.class())
}

// class serves all documents to all namespaces.
func (r *run) class() *v1alpha1.ClusterDynamicConfigClass {
	class := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: className},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: r.Endpoint, Keys: []string{prefix + "**"}},
			Namespaces:  r.world.namespaces,
		},
	}
	if r.Token != "" {
		class.Spec.TokenSecret = &v1alpha1.SecretReference{Namespace: metav1.NamespaceDefault, Name: className}
	}
	return class
}

// play makes one move after the other until the time is over.
func (r *run) play(ctx context.Context) error {
	pace := rate.NewLimiter(movesPerSecond, 1)
	for end := time.Now().Add(r.For); time.Now().Before(end); {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		m := r.pick()
		r.report.Moves[m.name]++
		if err := m.make(r, ctx); err != nil {
			return fmt.Errorf("move %s: %w", m.name, err)
		}
	}
	return nil
}

// repair starts what is down, resumes what is suspended.
func (r *run) repair(ctx context.Context) error {
	r.Log("repair")
	for backend, on := range r.silent {
		if on {
			r.Stage.Hub.Proxy.Silence(backend, false)
		}
	}
	for _, hub := range r.hubs {
		if err := r.start(ctx, hub); err != nil {
			return err
		}
	}
	for _, spoke := range r.Stage.Spokes {
		if err := r.start(ctx, agent(spoke)); err != nil {
			return err
		}
		if err := r.suspendCluster(ctx, spoke.Name, false); err != nil {
			return err
		}
	}
	for _, i := range r.world.renders() {
		if spec := r.world.wanted[i]; spec.Suspend {
			spec.Suspend = false
			if err := r.change(ctx, i, spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanUp leaves the stage as it was.
func (r *run) cleanUp(ctx context.Context) error {
	var err error
	for _, spoke := range r.Stage.Spokes {
		for _, ns := range r.world.namespaces {
			err = errors.Join(err, spoke.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
		}
	}
	credential := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: className}}
	return errors.Join(err, r.Stage.Hub.Client.Delete(ctx, r.class()), r.Stage.Hub.Client.Delete(ctx, credential))
}
