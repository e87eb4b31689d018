package main

import (
	"context"
	"fmt"
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
	began  time.Time
	stop   context.CancelFunc
	group  *errgroup.Group
}

// connect registers and starts fake spokes, each with the first renders documents, and
// does not wait for them.
func (r *rig) connect(ctx context.Context, prefix string, spokes, renders int) (*fakes, error) {
	f := &fakes{rig: r, name: prefix, total: spokes * renders}
	for n := range spokes {
		spoke, err := f.register(ctx, fmt.Sprintf("%s-%04d", prefix, n), renders)
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

func (f *fakes) register(ctx context.Context, name string, renders int) (*fakespoke.Spoke, error) {
	tls, err := f.rig.signer.client(name)
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
	specs := make([]*fleetv1.RenderSpec, 0, renders)
	for n := range renders {
		specs = append(specs, spec(n, document(n)))
	}
	return fakespoke.New(fakespoke.Config{
		Address: f.rig.stage.Hub.Address, TLS: tls, Renders: specs, Reconnect: reconnect, Tally: &f.tally,
	}), nil
}

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
