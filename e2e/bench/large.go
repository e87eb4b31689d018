package main

import (
	"context"
	"fmt"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/fakespoke"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

const (
	// quiet is how long an idle hub is looked at, settling how long it is left alone before.
	quiet, settling = 30 * time.Second, 90 * time.Second
	// newRenders are how many arrive late in a busy fleet, one after the other.
	newRenders = 20
)

// large measures one large fleet: connecting, idling, a change for all, a Render that is
// new among all the others, and a restart of the hub.
func large(ctx context.Context, r *rig) error {
	phase := fmt.Sprintf("fleet %dx%d", r.spokes, r.renders)
	if err := r.put(ctx, r.renders+1, "0"); err != nil {
		return err
	}
	if err := r.reportUsage(ctx, phase, "empty"); err != nil {
		return err
	}
	f, err := r.connect(ctx, "large", r.spokes, r.renders, shared)
	if err != nil {
		return err
	}
	if err := r.whileProfiled(ctx, "connect", func() error {
		err := f.current(ctx)
		r.report.seconds(phase, "until all are current, from nothing", time.Since(f.began))
		return err
	}); err != nil {
		return err
	}
	for _, step := range []func(context.Context, string, *fakes) error{r.idle, r.changeForAll, r.newcomers, r.restart} {
		if err := step(ctx, phase, f); err != nil {
			return err
		}
	}
	return f.leave(ctx)
}

// idle looks at a hub to which nothing happens any more: at once, while it writes down
// what it is connected to, and when it came to rest.
func (r *rig) idle(ctx context.Context, phase string, _ *fakes) error {
	if err := r.look(ctx, phase, "just connected"); err != nil {
		return err
	}
	if err := wait(ctx, settling); err != nil {
		return err
	}
	if err := r.whileProfiled(ctx, "idle", func() error { return r.look(ctx, phase, "idle") }); err != nil {
		return err
	}
	for _, kind := range []string{profileHeap, profileGoroutines} {
		if err := r.keepProfile(ctx, "idle", kind); err != nil {
			return err
		}
	}
	return r.reportUsage(ctx, phase, "idle")
}

// look measures a hub that is left alone.
func (r *rig) look(ctx context.Context, phase, state string) error {
	before, err := r.stage.Hub.Usage(ctx)
	if err != nil {
		return err
	}
	asked := r.front.requests.Load()
	if err := wait(ctx, quiet); err != nil {
		return err
	}
	after, err := r.stage.Hub.Usage(ctx)
	if err != nil {
		return err
	}
	r.report.add(phase, "hub's processor time, "+state, 100*(after.CPU-before.CPU)/quiet.Seconds(), "% of a core")
	r.report.add(phase, "requests to Consul, "+state, float64(r.front.requests.Load()-asked)/quiet.Seconds(), "/s")
	return nil
}

// wait waits, or answers the context's error.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changeForAll changes one document that every spoke has.
func (r *rig) changeForAll(ctx context.Context, phase string, f *fakes) error {
	before, asked := f.tally.Counts(), r.front.requests.Load()
	if err := r.consul.Put(ctx, document(0), content(0, "1")); err != nil {
		return err
	}
	took, err := f.until(ctx, func(c fakespoke.Counts) bool { return c.Deliveries-before.Deliveries >= len(f.spokes) })
	if err != nil {
		return err
	}
	r.report.seconds(phase, "one document changed for all, to the last delivery", took)
	r.report.add(phase, "content sent for it", float64(f.tally.Counts().Bytes-before.Bytes)/(1<<10), "KiB")
	r.report.add(phase, "requests to Consul for it", float64(r.front.requests.Load()-asked), "")
	return nil
}

// newcomers are new Renders of a document that nobody had, while the hub is at work on a
// change for everybody.
func (r *rig) newcomers(ctx context.Context, phase string, f *fakes) error {
	var took []time.Duration
	for n := range newRenders {
		spoke := f.spokes[n%len(f.spokes)]
		if err := r.consul.Put(ctx, document(0), content(0, fmt.Sprint("busy-", n))); err != nil {
			return err
		}
		late := spec(r.renders+n, document(r.renders))
		f.total++
		began := time.Now()
		if err := arrived(ctx, spoke, late); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	r.report.percentiles(phase, "a new Render among changes for all (goal 2000 ms)", took)
	if err := r.consul.Put(ctx, document(0), content(0, lastVersion)); err != nil {
		return err
	}
	_, err := f.until(ctx, func(fakespoke.Counts) bool { return f.settled.Load() >= int64(len(f.spokes)) })
	return err
}

func arrived(ctx context.Context, spoke *fakespoke.Spoke, late *fleetv1.RenderSpec) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-spoke.Add(late):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a new Render did not arrive: %w", ctx.Err())
	}
}

// restart kills the hub and starts it again.
func (r *rig) restart(ctx context.Context, phase string, f *fakes) error {
	before := f.tally.Counts()
	r.stage.Hub.Kill()
	if _, err := f.until(ctx, func(c fakespoke.Counts) bool { return c.Sessions == 0 }); err != nil {
		return err
	}
	began := time.Now()
	if err := r.stage.Hub.Start(ctx); err != nil {
		return err
	}
	ready := time.Since(began)
	var current time.Duration
	if err := r.whileProfiled(ctx, "restart", func() error {
		err := f.current(ctx)
		current = time.Since(began)
		return err
	}); err != nil {
		return err
	}
	r.report.seconds(phase, "restart of a killed hub, until it is ready", ready)
	r.report.seconds(phase, "restart of a killed hub, until all are current", current)
	r.report.add(phase, "documents sent again (goal 0)", float64(f.tally.Counts().Deliveries-before.Deliveries), "")
	return r.reportUsage(ctx, phase, "after the restart")
}
