package cli

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchFunc makes a function a watcher of client-go.
type watchFunc func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// WatchWithContext starts a watch.
func (f watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}

// follow prints objects as they change after they were listed, until ctx ends.
func (g *getter) follow(ctx context.Context, sources []source, names []string, show func([]found) error) error {
	group, ctx := errgroup.WithContext(ctx)
	changes := make(chan found)
	for _, s := range sources {
		group.Go(func() error { // ends with ctx, as the printing below does
			return s.changes(ctx, func(object client.Object) {
				if len(named([]client.Object{object}, names)) == 0 {
					return
				}
				select {
				case changes <- found{s.place, []client.Object{object}}:
				case <-ctx.Done():
				}
			})
		})
	}
	group.Go(func() error {
		for {
			select {
			case change := <-changes:
				if err := show([]found{change}); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// changes hands on every object of a source that changes after the list, until ctx
// ends. A watch that the API server closes is opened anew.
func (s *source) changes(ctx context.Context, visit func(client.Object)) error {
	start := watchFunc(func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		list := s.list.DeepCopyObject().(client.ObjectList)
		return s.conn.Watch(ctx, list, append(s.options, &client.ListOptions{Raw: &options})...)
	})
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, s.list.GetResourceVersion(), start)
	if err != nil {
		return s.conn.Wrap(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return s.conn.Wrap(apierrors.FromObject(event.Object))
		}
		if object, ok := event.Object.(client.Object); ok && event.Type != watch.Bookmark {
			visit(object)
		}
	}
	return nil
}
