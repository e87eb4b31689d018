package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/fakespoke"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// options are the command line.
type options struct {
	spokes, renders, changes int
	phases                   []string
	out, profiles            string
}

// rig is what every phase measures on.
type rig struct {
	options
	stage  *stage.Stage
	consul *testenv.ConsulServer
	front  *front
	signer *fakespoke.Signer
	report *report
}

// className serves every document below "bench/".
const className = "bench"

func run(ctx context.Context, o options) error {
	phases := map[string]func(context.Context, *rig) error{"latency": latency, "periodic": periodic, "fleet": large, "curve": curve}
	for _, name := range o.phases {
		if phases[name] == nil {
			return fmt.Errorf("no phase %q: latency, periodic, fleet and curve", name)
		}
	}
	dir, err := os.MkdirTemp("", "dynamic-config-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := setUp(ctx, dir, o)
	if err != nil {
		return err
	}
	for _, name := range o.phases {
		if err = phases[name](ctx, r); err != nil {
			err = fmt.Errorf("phase %s: %w", name, err)
			break
		}
	}
	return errors.Join(err, r.report.write(o.out), r.tearDown())
}

func setUp(ctx context.Context, dir string, o options) (*rig, error) {
	r := &rig{options: o, report: &report{out: os.Stdout}}
	var err error
	if r.consul, err = testenv.StartConsul(ctx, testenv.ConsulOptions{}); err != nil {
		return nil, err
	}
	// The log of a busy hub is a load of its own: info, as people run it.
	r.stage, err = stage.Start(ctx, stage.Options{Dir: dir, Spokes: []string{"real"}, HubArgs: []string{"--log-level=info"}, SpokeArgs: []string{"--log-level=info"}})
	if err == nil {
		r.front, err = newFront(r.consul.Addr)
	}
	if err == nil {
		r.signer, err = fakespoke.NewSigner(ctx, r.stage.Hub.Client, stage.Namespace)
	}
	if err == nil {
		err = r.stage.Hub.Client.Create(ctx, class(r.front.URL))
	}
	if err != nil {
		return nil, errors.Join(err, r.tearDown())
	}
	return r, nil
}

func (r *rig) tearDown() error {
	var err error
	if r.stage != nil {
		err = r.stage.Stop()
	}
	if r.front != nil {
		r.front.CloseClientConnections() // blocking queries are under way
		r.front.Close()
	}
	return errors.Join(err, r.consul.Stop())
}

func class(endpoint string) *v1alpha1.ClusterDynamicConfigClass {
	most := func(n int32) *int32 { return &n }
	return &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: className},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{
			Source: v1alpha1.SourceConsul, Endpoint: endpoint,
			Limits: &v1alpha1.ClassLimits{RequestsPerSecond: most(200), Burst: most(400)},
		}},
	}
}

func document(n int) string { return fmt.Sprintf("bench/doc-%03d.json", n) }

// put writes n documents of half a KiB.
func (r *rig) put(ctx context.Context, n int, version string) error {
	for i := range n {
		if err := r.consul.Put(ctx, document(i), content(i, version)); err != nil {
			return err
		}
	}
	return nil
}

func content(n int, version string) string {
	return fmt.Sprintf(`{"number":%d,"version":%q,"filler":"%0500d"}`, n, version, n)
}
