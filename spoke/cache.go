package spoke

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// ownAnnotations is what the annotations that the agent reads begin with.
var ownAnnotations = v1alpha1.GroupVersion.Group + "/"

// cacheOptions say what is kept in memory: the Renders, and of targets the metadata, by
// our label; in some namespaces where some are named. Neither is listed or watched for
// the whole cluster then.
func cacheOptions(namespaces []string) cache.Options {
	targets := cache.ByObject{
		Label:     labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedByValue}),
		Transform: withoutForeignAnnotations,
	}
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}:                targets,
		&corev1.ConfigMap{}:             targets,
		&v1alpha1.DynamicConfigRender{}: {Transform: withoutHistory},
	}}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = make(map[string]cache.Config)
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

// withoutForeignAnnotations keeps the annotations of others out of memory. What kubectl
// applied last is one of them, and in a Secret that was adopted it holds values.
func withoutForeignAnnotations(object any) (any, error) {
	accessor, err := apimeta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // a tombstone passes as it is
	}
	annotations := accessor.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, ownAnnotations) })
	return object, nil
}

// withoutHistory keeps what a Render was, and who wrote it, out of memory too.
func withoutHistory(object any) (any, error) {
	if accessor, err := apimeta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return withoutForeignAnnotations(object)
}
