package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/explain"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

// defaultSyncTimeout is longer than a store's timeout and a reconnect of the agent.
const defaultSyncTimeout = time.Minute

// newSync asks for documents now.
func newSync(a *app) *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "sync NAME...",
		Short: "Ask the hub to fetch the documents of Renders now",
		Long: "Asks the hub to fetch the documents of Renders now. With --wait it ends when the hub has handled the\n" +
			"request: with 0 when the Render is ready then, with 1 when it is not, or when --timeout is over.",
		Args:              usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeRenders(false),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until the hub has handled the request")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultSyncTimeout, "How long to wait for all of them")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		if wait {
			bounded, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = bounded
		}
		return a.sync(ctx, names, wait)
	}
	return cmd
}

// sync asks for the documents of Renders, then waits for the answers where asked to.
func (a *app) sync(ctx context.Context, names []string, wait bool) error {
	stamp := a.now().UTC().Format(time.RFC3339Nano)
	asked := map[string]*v1alpha1.DynamicConfigRender{}
	failed := forEach(names, func(name string) (err error) {
		asked[name], err = a.ask(ctx, name, stamp)
		return err
	})
	if !wait {
		return failed
	}
	unready := forEach(names, func(name string) error {
		if asked[name] == nil {
			return nil
		}
		return a.awaitSync(ctx, asked[name], stamp)
	})
	return errors.Join(append(failuresOf(failed), failuresOf(unready)...)...)
}

// ask requests a sync of one Render; nil where that is not possible.
func (a *app) ask(ctx context.Context, name, stamp string) (*v1alpha1.DynamicConfigRender, error) {
	workload, r, err := a.render(ctx, name)
	if err != nil {
		return nil, err
	}
	if r.Spec.Suspend {
		return nil, failf("dynconf resume "+name, "Render %s/%s is suspended: nothing is fetched for it", r.Namespace, name)
	}
	request := map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{v1alpha1.AnnotationSyncRequestedAt: stamp},
	}}
	if err := patch(ctx, workload, r, request); err != nil {
		return nil, err
	}
	a.say("%s: asked for a sync", nameOf(r))
	return r, nil
}

// patch merges changes into an object under the command's own field manager.
func patch(ctx context.Context, conn *kube.Conn, object client.Object, changes any) error {
	body, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	return conn.Wrap(conn.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(kube.FieldManager)))
}

// awaitSync waits until the hub has handled a request.
func (a *app) awaitSync(ctx context.Context, r *v1alpha1.DynamicConfigRender, stamp string) error {
	workload, err := a.clusters.Workload()
	if err != nil {
		return err
	}
	handled := func(event watch.Event) (bool, error) {
		current, ok := event.Object.(*v1alpha1.DynamicConfigRender)
		if !ok {
			return false, nil
		}
		if event.Type == watch.Deleted {
			return false, failf("", "Render %s/%s was deleted meanwhile", r.Namespace, r.Name)
		}
		r = current
		return current.Status.LastHandledSync == stamp, nil
	}
	only := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", r.Name)}
	watcher := watchFunc(func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return workload.Watch(ctx, &v1alpha1.DynamicConfigRenderList{}, client.InNamespace(r.Namespace), &client.ListOptions{Raw: &options}, only)
	})
	retrying, err := watchtools.NewRetryWatcherWithContext(ctx, r.ResourceVersion, watcher)
	if err != nil {
		return workload.Wrap(err)
	}
	_, err = watchtools.UntilWithoutRetry(ctx, retrying, handled)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failf("dynconf doctor says whether agent and hub are there, dynconf status "+r.Name+" how the Render is",
			"the hub did not handle the request for %s/%s in time", r.Namespace, r.Name)
	case err != nil:
		return err
	}
	ready := apimeta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return failf("dynconf why "+r.Name, "Render %s/%s was handled and is not ready: %s", r.Namespace, r.Name, stateOf(r.Status.Conditions, a.now()).reason)
	}
	a.say("%s: handled, %s; ready for %s", nameOf(r), ready.Reason, explain.Age(ready.LastTransitionTime, a.now()))
	return nil
}
