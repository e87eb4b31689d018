package chaos

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// compare looks until everything is as it should be, and is so for a while, or the
// time to settle is over.
func (r *run) compare(ctx context.Context) error {
	began, right := time.Now(), time.Time{}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		mismatches, err := r.mismatches(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		switch {
		case len(mismatches) > 0:
			right = time.Time{}
		case right.IsZero():
			right, r.report.Settled = now, now.Sub(began)
		case now.Sub(right) >= calm:
			return nil
		}
		if len(mismatches) > 0 && now.Sub(began) > settle {
			r.report.Mismatches = mismatches
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mismatches are the differences between the fleet and the World, in words without a
// value.
func (r *run) mismatches(ctx context.Context) ([]string, error) {
	r.report.Renders, r.report.Targets = 0, 0
	var all []string
	for _, spoke := range r.Stage.Spokes {
		for _, ns := range r.world.namespaces {
			found, err := r.mismatchesIn(ctx, spoke.Name, ns)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

func (r *run) mismatchesIn(ctx context.Context, spoke, namespace string) ([]string, error) {
	c := r.Stage.Spoke(spoke).Client
	renders := &v1alpha1.DynamicConfigRenderList{}
	if err := c.List(ctx, renders, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	targets, err := managed(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	var all []string
	for n := range renders.Items {
		object := &renders.Items[n]
		i := id{spoke, namespace, object.Name}
		r.report.Renders++
		all = append(all, r.judge(i, object, targets)...)
		delete(targets, nameOf(target(i, object.Spec.Target)))
	}
	for name := range targets {
		if !r.mayStay(id{spoke, namespace, ownerOf(name)}) {
			all = append(all, fmt.Sprintf("%s/%s: %s is left of a Render that wanted it gone", spoke, namespace, name))
		}
	}
	return all, nil
}

// mayStay says whether a target that its Render does not name may be there: one that was
// to be left, or the last good one of a Render that has no content for its new target.
func (r *run) mayStay(i id) bool {
	_, wanted := r.world.wanted[i]
	return r.world.retained[i] || (wanted && r.world.truth(i).ready != v1alpha1.ReasonRendered)
}

// ownerOf is the Render of a target, by the name that run.spec gave it.
func ownerOf(target string) string {
	_, name, _ := strings.Cut(target, "/")
	return name[:strings.LastIndex(name, "-")]
}

// judge compares one Render's status and target with the truth.
func (r *run) judge(i id, object *v1alpha1.DynamicConfigRender, targets map[string]map[string][]byte) []string {
	want := r.world.truth(i)
	// A Render that left a target behind and names it again meets nobody's object.
	if r.world.retained[i] && says(object, v1alpha1.ReasonTargetNotOwned) {
		return nil
	}
	ready := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != want.ready || ready.ObservedGeneration != object.Generation {
		return []string{fmt.Sprintf("%s: Ready says %s of generation %d, want %s of %d; causes: %v", i, reason(ready), observed(ready), want.ready, object.Generation, causes(object))}
	}
	if want.cause != "" && !says(object, want.cause) {
		return []string{fmt.Sprintf("%s: no condition says %s", i, want.cause)}
	}
	if want.ready != v1alpha1.ReasonRendered {
		return nil
	}
	r.report.Targets++
	held, there := targets[nameOf(target(i, object.Spec.Target))]
	if !there {
		return []string{fmt.Sprintf("%s: says Rendered and its target is not there", i)}
	}
	return r.differ(i, held, want.data)
}

// differ names the keys of a target that are not as they should be.
func (r *run) differ(i id, held, want map[string][]byte) []string {
	var keys []string
	for key, value := range want {
		if !bytes.Equal(held[key], value) {
			keys = append(keys, key)
		}
	}
	for key := range held {
		if _, wanted := want[key]; !wanted && !r.world.spoiled[i] {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	return []string{fmt.Sprintf("%s: keys %v of its target are not render(spec, store)", i, keys)}
}

// managed are the targets in a namespace by kind and name, with their data.
func managed(ctx context.Context, c client.Client, namespace string) (map[string]map[string][]byte, error) {
	ours := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedByValue}}
	found := map[string]map[string][]byte{}
	secrets, configMaps := &corev1.SecretList{}, &corev1.ConfigMapList{}
	if err := c.List(ctx, secrets, ours...); err != nil {
		return nil, err
	}
	if err := c.List(ctx, configMaps, ours...); err != nil {
		return nil, err
	}
	for n := range secrets.Items {
		found[nameOf(&secrets.Items[n])] = secrets.Items[n].Data
	}
	for n := range configMaps.Items {
		data := maps.Clone(configMaps.Items[n].BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, value := range configMaps.Items[n].Data {
			data[key] = []byte(value)
		}
		found[nameOf(&configMaps.Items[n])] = data
	}
	return found, nil
}

// nameOf is a target's kind and name.
func nameOf(o client.Object) string {
	if _, ok := o.(*corev1.ConfigMap); ok {
		return "configmap/" + o.GetName()
	}
	return "secret/" + o.GetName()
}

// says tells whether a condition of the present spec has a reason.
func says(object *v1alpha1.DynamicConfigRender, reason string) bool {
	return slices.ContainsFunc(object.Status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == reason && c.ObservedGeneration == object.Generation
	})
}

// causes are what the conditions say that are not true.
func causes(object *v1alpha1.DynamicConfigRender) []string {
	var all []string
	for _, c := range object.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			all = append(all, c.Type+" "+c.Reason+": "+c.Message)
		}
	}
	return all
}

func reason(c *metav1.Condition) string {
	if c == nil {
		return "nothing"
	}
	return c.Reason
}

func observed(c *metav1.Condition) int64 {
	if c == nil {
		return 0
	}
	return c.ObservedGeneration
}
