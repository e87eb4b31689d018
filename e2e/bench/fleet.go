package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/fakespoke"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

const (
	// patience bounds every wait of a benchmark.
	patience = 10 * time.Minute
	// reconnect is the window over which agents come back, by default.
	reconnect = 15 * time.Second
	// interval of every Render: longer than any phase.
	interval = time.Hour
	// lastVersion of a document ends a series of changes.
	lastVersion = "last"
	// fleetLabel marks the SpokeClusters of one fleet.
	fleetLabel = "bench-fleet"
)

// fakes are fake spokes that run.
type fakes struct {
	rig    *rig
	name   string
	tally  fakespoke.Tally
	spokes []*fakespoke.Spoke
	total  int
	// settled is how often the last version of a document came.
	settled atomic.Int64
	began   time.Time
	stop    context.CancelFunc
	group   *errgroup.Group
}

// connect registers and starts fake spokes, each with its Renders, and does not wait for
// them.
func (r *rig) connect(ctx context.Context, name string, spokes, renders int, wants func(spoke, render int) *fleetv1.RenderSpec) (*fakes, error) {
	f := &fakes{rig: r, name: name, total: spokes * renders}
	for n := range spokes {
		specs := make([]*fleetv1.RenderSpec, 0, renders)
		for i := range renders {
			specs = append(specs, wants(n, i))
		}
		spoke, err := f.register(ctx, fmt.Sprintf("%s-%04d", name, n), specs)
		if err != nil {
			return nil, err
		}
		f.spokes = append(f.spokes, spoke)
	}
	running, stop := context.WithCancel(ctx)
	f.stop, f.began = stop, time.Now()
	f.group, running = errgroup.WithContext(running)
	for _, s := range f.spokes {
		f.group.Go(func() error { return s.Run(running) })
	}
	return f, nil
}

func (f *fakes) register(ctx context.Context, name string, specs []*fleetv1.RenderSpec) (*fakespoke.Spoke, error) {
	tls, err := f.rig.signer.Client(name)
	if err != nil {
		return nil, err
	}
	cluster := &v1alpha1.SpokeCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{fleetLabel: f.name}},
		Spec:       v1alpha1.SpokeClusterSpec{Accepted: true},
	}
	if err := f.rig.stage.Hub.Client.Create(ctx, cluster); err != nil {
		return nil, err
	}
	return fakespoke.New(fakespoke.Config{
		Address: f.rig.stage.Hub.Address, TLS: tls, Renders: specs, Reconnect: reconnect, Tally: &f.tally,
		Delivered: func(d *fleetv1.Deliver) {
			if string(d.GetData()["version"]) == lastVersion {
				f.settled.Add(1)
			}
		},
	}), nil
}

// shared are the same documents for every spoke.
func shared(_, n int) *fleetv1.RenderSpec { return spec(n, document(n)) }

func spec(n int, key string) *fleetv1.RenderSpec {
	return &fleetv1.RenderSpec{
		Ref:        &fleetv1.RenderRef{Namespace: namespace, Name: fmt.Sprintf("render-%d", n), Uid: fmt.Sprintf("uid-%d", n)},
		Generation: 1, Class: className, ClassKind: fleetv1.ClassKind_CLASS_KIND_CLUSTER, Key: key,
		Interval: durationpb.New(interval),
		Target:   &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_SECRET, Name: fmt.Sprintf("target-%d", n), Shape: fleetv1.Shape_SHAPE_ENTRIES},
	}
}

// until waits for counts and answers how long it took.
func (f *fakes) until(ctx context.Context, enough func(fakespoke.Counts) bool) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f.tally.Until(ctx, enough); err != nil {
		return 0, fmt.Errorf("%w; seen so far: %+v", err, f.tally.Counts())
	}
	return time.Since(began), nil
}

// current waits until every Render is answered.
func (f *fakes) current(ctx context.Context) error {
	_, err := f.until(ctx, func(c fakespoke.Counts) bool { return c.Answered == f.total })
	return err
}

// leave ends the spokes and removes their SpokeClusters.
func (f *fakes) leave(ctx context.Context) error {
	f.stop()
	if err := f.group.Wait(); err != nil {
		return err
	}
	return f.rig.stage.Hub.Client.DeleteAllOf(ctx, &v1alpha1.SpokeCluster{}, client.MatchingLabels{fleetLabel: f.name})
}
