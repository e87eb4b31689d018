package mirror

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// source is the list and the watch behind a virtual cluster's informer.
//
// The first inventory is the list. Later ones are compared here and come out as
// events of the open watch: answering 410 Expired instead works too, and costs the
// reflector's back-off of 0.8 s and more on every reconnect.
//
// Its objects are the informer's too, and never change once they are put: a hub holds
// 100,000 of them, and holds them once.
type source struct {
	// mu guards everything below.
	mu      sync.Mutex
	version uint64
	objects map[types.NamespacedName]*v1alpha1.DynamicConfigRender
	watch   *eventQueue

	// ready is closed by the first whole inventory.
	ready     chan struct{}
	readyOnce sync.Once
}

var (
	_ toolscache.ListerWatcher            = (*source)(nil)
	_ toolscache.ListerWatcherWithContext = (*source)(nil)
)

// errNoContext answers the forms of list and watch that client-go no longer calls
// where those with a context exist.
var errNoContext = errors.New("a mirror is listed and watched with a context")

func newSource() *source {
	return &source{objects: map[types.NamespacedName]*v1alpha1.DynamicConfigRender{}, ready: make(chan struct{})}
}

// IsWatchListSemanticsUnSupported keeps the reflector from opening a watch-list,
// whose initial bookmark would never come.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// replace takes a whole inventory. An object that was there before is an event also
// when it did not change: a new session is owed every answer again.
func (s *source) replace(items []*v1alpha1.DynamicConfigRender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swap(items)
	s.readyOnce.Do(func() { close(s.ready) })
}

// empty forgets all objects, unless anything was said since a version.
func (s *source) empty(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == version {
		s.swap(nil)
	}
}

func (s *source) latest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// swap puts objects in the place of those there are.
func (s *source) swap(items []*v1alpha1.DynamicConfigRender) {
	before := s.objects
	s.objects = make(map[types.NamespacedName]*v1alpha1.DynamicConfigRender, len(items))
	for _, item := range items {
		key := keyOf(item)
		_, had := before[key]
		delete(before, key)
		s.put(key, item, had)
	}
	for _, object := range before {
		s.gone(object)
	}
}

func (s *source) upsert(item *v1alpha1.DynamicConfigRender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had := s.objects[keyOf(item)]
	s.put(keyOf(item), item, had)
}

func (s *source) remove(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, ok := s.objects[key]; ok {
		delete(s.objects, key)
		s.gone(object)
	}
}

// put stores an object, which is the source's from now on, and tells the watch.
func (s *source) put(key types.NamespacedName, item *v1alpha1.DynamicConfigRender, had bool) {
	s.objects[key] = item
	kind := watch.Added
	if had {
		kind = watch.Modified
	}
	s.emit(kind, item)
}

// gone tells the watch that an object is no longer. The informer has the object: what is
// told is a copy.
func (s *source) gone(object *v1alpha1.DynamicConfigRender) { s.emit(watch.Deleted, object.DeepCopy()) }

// emit gives an object the next version and tells the watch.
func (s *source) emit(kind watch.EventType, object *v1alpha1.DynamicConfigRender) {
	s.version++
	object.ResourceVersion = strconv.FormatUint(s.version, 10)
	if s.watch != nil {
		s.watch.add(watch.Event{Type: kind, Object: object})
	}
}

// List is not called; see ListWithContext.
func (s *source) List(metav1.ListOptions) (runtime.Object, error) { return nil, errNoContext }

// Watch is not called; see WatchWithContext.
func (s *source) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, errNoContext }

// ListWithContext waits for the first whole inventory.
func (s *source) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Of a list of the kind itself, the reflector would copy every item.
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(s.version, 10)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	return list, nil
}

// WatchWithContext opens the one watch. Where frames came between list and watch it
// asks for a fresh list.
func (s *source) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.ResourceVersion != strconv.FormatUint(s.version, 10) {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("mirror is at %d, asked for %s", s.version, o.ResourceVersion))
	}
	if s.watch != nil {
		s.watch.Stop()
	}
	s.watch = newEventQueue()
	return s.watch, nil
}

func keyOf(o *v1alpha1.DynamicConfigRender) types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}
