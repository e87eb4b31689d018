package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// stateAge is how old a State may be that is shown again: however many people look,
// the fleet is gone through once a second.
const stateAge = time.Second

// Sessions are those of this replica.
type Sessions interface {
	Clusters() []string
	Status(cluster string, keep func(*fleet.RenderStatus) bool) (fleet.Status, bool)
	RenderStatus(cluster string, id fleet.ID) (fleet.RenderStatus, bool)
}

// Mirrors have the Renders of this replica's spokes.
type Mirrors interface {
	Get(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error)
}

// Reader gathers what a replica knows. It is safe for concurrent use.
type Reader struct {
	// Hub reads objects from the hub's cache.
	Hub      client.Reader
	Sessions Sessions
	Mirrors  Mirrors
	// Certificates are the ends of those that the clusters with a session showed.
	Certificates func() map[string]time.Time
	// CertificateLifetime of spokes, and the name of the replica.
	CertificateLifetime time.Duration
	Replica             string

	// mu guards last and listed, and is held while they are made: who waits wants the
	// same.
	mu     sync.Mutex
	last   *State
	listed map[string]listed // by cluster
}

// listed are the Renders of a cluster as they were.
type listed struct {
	at      time.Time
	renders []fleet.RenderStatus
}

// State is what the replica knows, with the Renders that are not ready.
func (r *Reader) State(ctx context.Context) (*State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && time.Since(r.last.Now) < stateAge {
		return r.last, nil
	}
	s, err := r.objects(ctx)
	if err != nil {
		return nil, err
	}
	ends := r.Certificates()
	s.Sessions = map[string]Session{}
	for _, name := range r.Sessions.Clusters() {
		if status, ok := r.Sessions.Status(name, func(one *fleet.RenderStatus) bool { return stateOf(one).Tone != good }); ok {
			s.Sessions[name] = Session{Status: status, CertificateEnds: ends[name]}
		}
	}
	r.last = s
	return s, nil
}

// Renders are all those of one cluster, to be read only; none when it has no session
// here. As old as a State at most.
func (r *Reader) Renders(cluster string) []fleet.RenderStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.listed, func(_ string, l listed) bool { return time.Since(l.at) >= stateAge })
	if known, ok := r.listed[cluster]; ok {
		return known.renders
	}
	status, ok := r.Sessions.Status(cluster, func(*fleet.RenderStatus) bool { return true })
	if !ok {
		return nil // and no entry: anything may be asked for by that name
	}
	if r.listed == nil {
		r.listed = map[string]listed{}
	}
	r.listed[cluster] = listed{time.Now(), status.Renders}
	return status.Renders
}

// Render is one Render as its spoke states it, and what it was told; nil for none.
func (r *Reader) Render(ctx context.Context, cluster string, id fleet.ID) (*v1alpha1.DynamicConfigRender, *fleet.RenderStatus, error) {
	mirror, err := r.Mirrors.Get(ctx, multicluster.ClusterName(cluster))
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	render := &v1alpha1.DynamicConfigRender{}
	err = mirror.GetClient().Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, render)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	status, ok := r.Sessions.RenderStatus(cluster, id)
	if !ok {
		return nil, nil, nil
	}
	return render, &status, nil
}

func (r *Reader) objects(ctx context.Context) (*State, error) {
	var (
		clusters   v1alpha1.SpokeClusterList
		shared     v1alpha1.ClusterDynamicConfigClassList
		namespaced v1alpha1.DynamicConfigClassList
	)
	for _, list := range []client.ObjectList{&clusters, &shared, &namespaced} {
		if err := r.Hub.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("read the hub's cache: %w", err)
		}
	}
	s := &State{Now: time.Now(), Replica: r.Replica, CertificateLifetime: r.CertificateLifetime, Clusters: clusters.Items, Classes: map[string]Class{}}
	for i := range shared.Items {
		c := &shared.Items[i]
		s.Classes[v1alpha1.ClassID(v1alpha1.ClassKindCluster, "", c.Name)] = Class{c.Spec.Source, c.Status.Conditions}
	}
	for i := range namespaced.Items {
		c := &namespaced.Items[i]
		s.Classes[v1alpha1.ClassID(v1alpha1.ClassKindNamespaced, c.Namespace, c.Name)] = Class{c.Spec.Source, c.Status.Conditions}
	}
	return s, nil
}
