package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every object here.
var GroupVersion = schema.GroupVersion{Group: "dynamic-config.rs", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&DynamicConfigRender{}, &DynamicConfigRenderList{},
		&DynamicConfigClass{}, &DynamicConfigClassList{},
		&ClusterDynamicConfigClass{}, &ClusterDynamicConfigClassList{},
		&SpokeCluster{}, &SpokeClusterList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers the types of this group version with a scheme.
var AddToScheme = schemeBuilder.AddToScheme
