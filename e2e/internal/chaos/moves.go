package chaos

import (
	"context"
	"fmt"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// move is one kind of change; the likelier the greater its weight.
type move struct {
	name   string
	weight int
	make   func(*run, context.Context) error
}

// moves of all kinds. Those that end processes are rare: each costs seconds.
var moves = []move{
	{"write a document", 30, (*run).writeSome},
	{"break a document", 3, (*run).breakSome},
	{"remove a document", 3, (*run).removeSome},
	{"make a Render", 20, (*run).makeRender},
	{"change a Render", 20, (*run).changeRender},
	{"suspend or resume a Render", 6, (*run).suspendRender},
	{"delete a Render", 8, (*run).deleteRender},
	{"change whom the class serves", 3, (*run).changeAccess},
	{"suspend or resume a cluster", 2, (*run).suspendSome},
	{"spoil a target", 8, (*run).spoil},
	{"remove a target", 8, (*run).removeTarget},
	{"end or start a replica of the hub", 2, (*run).toggleHub},
	{"end or start an agent", 2, (*run).toggleAgent},
	{"cut connections", 2, (*run).cut},
	{"silence connections, or end that", 2, (*run).silence},
}

func (r *run) pick() move {
	total := 0
	for _, m := range moves {
		total += m.weight
	}
	n := r.rng.IntN(total)
	for _, m := range moves {
		if n -= m.weight; n < 0 {
			return m
		}
	}
	return moves[0]
}

func (r *run) someDocument() string { return documentKey(r.rng.IntN(documents)) }

// write gives a document a new content.
func (r *run) write(ctx context.Context, key string) error {
	text := fmt.Sprintf(`{"number":%d,"nested":{"text":"value-%d"},"list":[1,2]}`, r.rng.IntN(1000), r.rng.IntN(1000))
	return r.store(ctx, key, text)
}

func (r *run) store(ctx context.Context, key, text string) error {
	r.world.stored[key] = text
	return r.Store.Put(ctx, key, text)
}

func (r *run) writeSome(ctx context.Context) error { return r.write(ctx, r.someDocument()) }

func (r *run) breakSome(ctx context.Context) error {
	return r.store(ctx, r.someDocument(), `{"number": `)
}

func (r *run) removeSome(ctx context.Context) error {
	key := r.someDocument()
	delete(r.world.stored, key)
	return r.Store.Delete(ctx, key)
}

// spec is a random spec whose target is the Render's alone.
func (r *run) spec(name string) v1alpha1.DynamicConfigRenderSpec {
	// Two names, so that a change may rename the target.
	target := fmt.Sprintf("%s-%d", name, r.rng.IntN(2))
	spec := v1alpha1.DynamicConfigRenderSpec{Class: className, ClassKind: v1alpha1.ClassKindCluster, Key: r.someDocument()}
	if r.rng.IntN(3) == 0 {
		spec.Target.ConfigMap = target
	} else {
		spec.Target.Secret = target
	}
	switch r.rng.IntN(3) {
	case 0:
		spec.Target.File = "config.yaml"
	case 1:
		spec.Target.Shape = v1alpha1.ShapeEntries
	default:
		spec.Target.Shape = v1alpha1.ShapeEnvEntries
	}
	if r.rng.IntN(4) == 0 {
		spec.Target.DeletionPolicy = v1alpha1.DeletionRetain
	}
	return spec
}

func (r *run) makeRender(ctx context.Context) error {
	r.made++
	spoke := r.Stage.Spokes[r.rng.IntN(len(r.Stage.Spokes))]
	i := id{spoke.Name, r.world.namespaces[r.rng.IntN(len(r.world.namespaces))], fmt.Sprintf("render-%d", r.made)}
	spec := r.spec(i.name)
	r.Log("make %s: %s", i, spec.Key)
	r.world.want(i, spec)
	return spoke.Client.Create(ctx, i.object(spec))
}

// someRender picks one; false when there is none.
func (r *run) someRender() (id, bool) {
	all := r.world.renders()
	if len(all) == 0 {
		return id{}, false
	}
	return all[r.rng.IntN(len(all))], true
}

func (r *run) changeRender(ctx context.Context) error {
	i, ok := r.someRender()
	if !ok {
		return nil
	}
	r.Log("change %s", i)
	return r.change(ctx, i, r.spec(i.name))
}

func (r *run) suspendRender(ctx context.Context) error {
	i, ok := r.someRender()
	if !ok {
		return nil
	}
	spec := r.world.wanted[i]
	spec.Suspend = !spec.Suspend
	return r.change(ctx, i, spec)
}

// change gives a Render another spec.
func (r *run) change(ctx context.Context, i id, spec v1alpha1.DynamicConfigRenderSpec) error {
	r.world.want(i, spec)
	object := i.object(v1alpha1.DynamicConfigRenderSpec{})
	return update(ctx, r.Stage.Spoke(i.spoke).Client, object, func() { object.Spec = spec })
}

func (r *run) deleteRender(ctx context.Context) error {
	i, ok := r.someRender()
	if !ok {
		return nil
	}
	r.Log("delete %s", i)
	delete(r.world.wanted, i)
	return r.Stage.Spoke(i.spoke).Client.Delete(ctx, i.object(v1alpha1.DynamicConfigRenderSpec{}))
}

func (r *run) changeAccess(ctx context.Context) error {
	ns := r.world.namespaces[1+r.rng.IntN(len(r.world.namespaces)-1)]
	r.world.served[ns] = !r.world.served[ns]
	r.Log("the class serves %s: %v", ns, r.world.served[ns])
	class := &v1alpha1.ClusterDynamicConfigClass{}
	class.Name = className
	return update(ctx, r.Stage.Hub.Client, class, func() {
		class.Spec.Namespaces = nil
		for _, ns := range r.world.namespaces {
			if r.world.served[ns] {
				class.Spec.Namespaces = append(class.Spec.Namespaces, ns)
			}
		}
	})
}

func (r *run) suspendSome(ctx context.Context) error {
	spoke := r.Stage.Spokes[r.rng.IntN(len(r.Stage.Spokes))]
	return r.suspendCluster(ctx, spoke.Name, r.rng.IntN(2) == 0)
}

func (r *run) suspendCluster(ctx context.Context, name string, suspend bool) error {
	r.Log("suspend cluster %s: %v", name, suspend)
	cluster := &v1alpha1.SpokeCluster{}
	cluster.Name = name
	return update(ctx, r.Stage.Hub.Client, cluster, func() { cluster.Spec.Suspend = suspend })
}
