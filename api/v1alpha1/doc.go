// Package v1alpha1 holds the objects of Dynamic Config Fleet: what a tenant
// asks for (DynamicConfigRender, in a workload cluster) and what a platform
// team allows (DynamicConfigClass, ClusterDynamicConfigClass and SpokeCluster,
// in the hub cluster).
//
// The package is the contract. Field names, condition types and reasons are
// never renamed. It holds no behaviour beyond what a caller needs to read an
// object; validation that the API server can do is written as CEL markers here.
//
// +kubebuilder:object:generate=true
// +groupName=dynamic-config.rs
package v1alpha1
