package chaos

import (
	"context"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// deployedHub is the name among those that are down of a hub whose replicas somebody
// else runs.
const deployedHub = "hub"

// process can be ended in two ways, and started.
type process struct {
	name      string
	start     func(context.Context) error
	kill      func()
	terminate func(context.Context) error
}

// hubProcesses are the replicas of a hub that run, or the hub as one.
func hubProcesses(hub *stage.Hub) (all []process) {
	for _, replica := range hub.Replicas {
		if replica.Runs() {
			start := func(ctx context.Context) error { return replica.Start(ctx) }
			all = append(all, process{replica.Name, start, replica.Kill, replica.Terminate})
		}
	}
	if len(all) == 0 {
		start := func(ctx context.Context) error { return hub.Start(ctx) }
		all = []process{{deployedHub, start, hub.Kill, hub.Terminate}}
	}
	return all
}

func agent(s *stage.Spoke) process { return process{s.Name, s.Start, s.Kill, s.Terminate} }

func (r *run) toggleHub(ctx context.Context) error {
	return r.toggle(ctx, r.hubs[r.rng.IntN(len(r.hubs))])
}

func (r *run) toggleAgent(ctx context.Context) error {
	return r.toggle(ctx, agent(r.Stage.Spokes[r.rng.IntN(len(r.Stage.Spokes))]))
}

// toggle starts a process that is down, and ends one that is not, with a warning or without.
func (r *run) toggle(ctx context.Context, p process) error {
	if r.down[p.name] {
		return r.start(ctx, p)
	}
	r.down[p.name] = true
	if r.rng.IntN(2) == 0 {
		r.Log("kill %s", p.name)
		p.kill()
		return nil
	}
	r.Log("terminate %s", p.name)
	return p.terminate(ctx)
}

// start starts a process that is down.
func (r *run) start(ctx context.Context, p process) error {
	if !r.down[p.name] {
		return nil
	}
	r.Log("start %s", p.name)
	r.down[p.name] = false
	return p.start(ctx)
}

// cut closes the connections to some replica of the hub, if there is a proxy before it.
func (r *run) cut(context.Context) error {
	if backend, ok := r.backend(); ok {
		r.Log("cut the connections to %s", backend)
		r.Stage.Hub.Proxy.Cut(backend)
	}
	return nil
}

// silence lets nothing pass to or from some replica, or lets it pass again.
func (r *run) silence(context.Context) error {
	if backend, ok := r.backend(); ok {
		r.silent[backend] = !r.silent[backend]
		r.Log("silence to and from %s: %v", backend, r.silent[backend])
		r.Stage.Hub.Proxy.Silence(backend, r.silent[backend])
	}
	return nil
}

// backend is where the proxy leads to for some replica.
func (r *run) backend() (string, bool) {
	name := r.hubs[r.rng.IntN(len(r.hubs))].name
	for _, replica := range r.Stage.Hub.Replicas {
		if replica.Name == name {
			return replica.Address, true
		}
	}
	return "", false
}
