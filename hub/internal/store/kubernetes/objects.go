package kubernetes

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// reads are the two requests that an informer makes.
type reads struct {
	namespace string
	list      func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch     func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func configMapsOf(server kubernetes.Interface, namespace string) reads {
	client := server.CoreV1().ConfigMaps(namespace)
	return reads{
		namespace: namespace,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		watch: client.Watch,
	}
}

func secretsOf(server kubernetes.Interface, namespace string) reads {
	client := server.CoreV1().Secrets(namespace)
	return reads{
		namespace: namespace,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		watch: client.Watch,
	}
}

// objects follows all objects of one kind in a namespace.
type objects struct {
	namespace string
	informer  cache.SharedIndexInformer
	start     sync.Once
	running   sync.WaitGroup // the informer's goroutine, ended by stop
	stop      chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	waiters map[string]*waiter
	failure *store.Error  // of the last request; nil when it succeeded
	failing chan struct{} // closed while there is a failure
}

// waiter is shared by all that wait for one object.
type waiter struct {
	changed chan struct{} // closed at the next change
	waiting int
}

func newObjects(server reads, example runtime.Object) *objects {
	o := &objects{
		namespace: server.namespace,
		stop:      make(chan struct{}),
		waiters:   map[string]*waiter{},
		failing:   make(chan struct{}),
	}
	o.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := server.list(ctx, options)
			o.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := server.watch(ctx, options)
			o.note(ctx, err)
			return events, err
		},
	}, example, 0, cache.Indexers{})
	return o
}

// run starts the informer once.
func (o *objects) run() {
	o.start.Do(func() {
		// None of these fails before the informer runs.
		_ = o.informer.SetTransform(withoutManagedFields)
		// Failures are noted and shown by the readers; the default handler logs them.
		_ = o.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
		announce := func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				o.announce(name.Name)
			}
		}
		_, _ = o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    announce,
			UpdateFunc: func(_, object any) { announce(object) },
			DeleteFunc: announce,
		})
		o.running.Go(func() { o.informer.Run(o.stop) })
	})
}

// withoutManagedFields drops what nobody reads and what can be most of an object.
func withoutManagedFields(object any) (any, error) {
	if meta, err := apimeta.Accessor(object); err == nil {
		meta.SetManagedFields(nil)
	}
	return object, nil
}

// close ends the informer; it is not started afterwards.
func (o *objects) close() {
	o.start.Do(func() {})
	close(o.stop)
	o.running.Wait()
}

// get answers an object once the cache is filled, or a *store.Error while the
// API server does not let it be current.
func (o *objects) get(ctx context.Context, name string) (any, error) {
	if err := o.current(ctx); err != nil {
		return nil, err
	}
	object, found, err := o.informer.GetStore().GetByKey(o.namespace + "/" + name)
	if err != nil || !found {
		return nil, &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errors.New("no such object")}
	}
	return object, nil
}

// current waits until the cache is filled; it fails while the last request did.
func (o *objects) current(ctx context.Context) error {
	o.run()
	synced := o.informer.HasSyncedChecker().Done()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		failure, failing := o.lastFailure()
		if failure != nil {
			return failure
		}
		select {
		case <-synced:
			return nil
		default:
		}
		select {
		case <-ctx.Done():
		case <-failing:
		case <-synced:
		}
	}
}

// note keeps how the last request went.
func (o *objects) note(ctx context.Context, err error) {
	// An expired version is answered with a new list, which is noted in turn; an
	// ended context is our own doing.
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && o.failure != nil:
		o.failure = nil
		o.failing = make(chan struct{})
	case err != nil:
		if o.failure == nil {
			close(o.failing)
		}
		o.failure = classify(err)
		for name := range o.waiters {
			o.wake(name)
		}
	}
}

// lastFailure answers the failure of the last request, and what is closed when
// there is one.
func (o *objects) lastFailure() (*store.Error, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failure, o.failing
}

// wait answers a waiter for the next change of the object; leave gives it back
// when the change was not waited for.
func (o *objects) wait(name string) *waiter {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, ok := o.waiters[name]
	if !ok {
		w = &waiter{changed: make(chan struct{})}
		o.waiters[name] = w
	}
	w.waiting++
	return w
}

func (o *objects) leave(name string, w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.waiting--
	if w.waiting == 0 && o.waiters[name] == w {
		delete(o.waiters, name)
	}
}

func (o *objects) announce(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake(name)
}

// wake is called with mu held.
func (o *objects) wake(name string) {
	if w, ok := o.waiters[name]; ok {
		close(w.changed)
		delete(o.waiters, name)
	}
}

// classify gives a failure its reason, without the API server's words.
func classify(err error) *store.Error {
	switch {
	case apierrors.IsForbidden(err):
		return &store.Error{Reason: v1alpha1.ReasonKeyForbidden, Err: errors.New("the hub may not read this kind here")}
	case apierrors.IsUnauthorized(err):
		return &store.Error{Reason: v1alpha1.ReasonCredentialRejected, Err: errors.New("the API server does not know the hub")}
	case apierrors.IsTooManyRequests(err):
		seconds, _ := apierrors.SuggestsClientDelay(err)
		return &store.Error{
			Reason:     v1alpha1.ReasonStoreThrottled,
			RetryAfter: time.Duration(seconds) * time.Second,
			Err:        errors.New("the API server asked for patience"),
		}
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return &store.Error{Reason: v1alpha1.ReasonStoreTimeout, Err: errors.New("no answer in time")}
	}
	return &store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Err: errors.New("the API server does not answer as it should")}
}
