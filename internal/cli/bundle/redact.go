package bundle

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// redacted stands for what is left out.
const redacted = "<redacted>"

// Meta is what is kept of an object's metadata. Labels are kept of SpokeClusters alone,
// since classes select by them; of annotations only the product's own are.
type Meta struct {
	Kind              string            `json:"kind"`
	Namespace         string            `json:"namespace,omitempty"`
	Name              string            `json:"name"`
	UID               types.UID         `json:"uid,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// Render is a Render as it goes into the bundle.
type Render struct {
	Meta
	Spec   v1alpha1.DynamicConfigRenderSpec   `json:"spec"`
	Status v1alpha1.DynamicConfigRenderStatus `json:"status"`
	Target *Target                            `json:"target,omitempty"`
}

// Target is a ConfigMap or Secret without its data.
type Target struct {
	Meta
	// Keys are the lengths of a ConfigMap's values in bytes by key; nil for a Secret.
	Keys map[string]int `json:"keys,omitempty"`
	// Problem says why it could not be read.
	Problem string `json:"problem,omitempty"`
}

// Class is a class of either kind.
type Class struct {
	Meta
	Spec   any                  `json:"spec"`
	Status v1alpha1.ClassStatus `json:"status"`
}

// SpokeCluster is a SpokeCluster.
type SpokeCluster struct {
	Meta
	Spec   v1alpha1.SpokeClusterSpec   `json:"spec"`
	Status v1alpha1.SpokeClusterStatus `json:"status"`
}

// Event is what an event says of one of our objects.
type Event struct {
	Object  string      `json:"object"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Count   int32       `json:"count,omitempty"`
	Last    metav1.Time `json:"last"`
}

// MetaOf copies what is kept of an object's metadata.
func MetaOf(kind string, o metav1.Object) Meta {
	return Meta{
		Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
		Annotations: ours(o.GetAnnotations()),
	}
}

// ours are the product's own annotations or labels.
func ours(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return !strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/")
	})
	return kept
}

// RenderOf copies a Render.
func RenderOf(r *v1alpha1.DynamicConfigRender) *Render {
	return &Render{Meta: MetaOf("DynamicConfigRender", r), Spec: *r.Spec.DeepCopy(), Status: *r.Status.DeepCopy()}
}

// TargetOf copies a target's metadata.
func TargetOf(kind string, o metav1.Object) *Target {
	t := &Target{Meta: MetaOf(kind, o)}
	t.Labels = ours(o.GetLabels())
	return t
}

// ConfigMapOf is a ConfigMap with the lengths of its values.
func ConfigMapOf(cm *corev1.ConfigMap) *Target {
	t := TargetOf("ConfigMap", cm)
	t.Keys = map[string]int{}
	for key, value := range cm.Data {
		t.Keys[key] = len(value)
	}
	for key, value := range cm.BinaryData {
		t.Keys[key] = len(value)
	}
	return t
}

// ClassOf copies a class of either kind; nil for anything else.
func ClassOf(object any) *Class {
	switch c := object.(type) {
	case *v1alpha1.DynamicConfigClass:
		spec := c.Spec.DeepCopy()
		redactCommon(&spec.ClassCommon)
		return &Class{MetaOf("DynamicConfigClass", c), spec, *c.Status.DeepCopy()}
	case *v1alpha1.ClusterDynamicConfigClass:
		spec := c.Spec.DeepCopy()
		redactCommon(&spec.ClassCommon)
		return &Class{MetaOf("ClusterDynamicConfigClass", c), spec, *c.Status.DeepCopy()}
	}
	return nil
}

// redactCommon takes out of a class what is, or may hold, half of a credential.
func redactCommon(c *v1alpha1.ClassCommon) {
	c.Endpoint = Endpoint(c.Endpoint)
	if c.Vault != nil && c.Vault.Auth != nil && c.Vault.Auth.AppRole != nil {
		c.Vault.Auth.AppRole.RoleID = redacted
	}
}

// Endpoint is scheme, host and path of a URL, without user info, query and fragment. One
// that does not parse is left out whole.
func Endpoint(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return redacted
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// SpokeClusterOf copies a SpokeCluster. Its keys are public; hashes of join tokens are
// left out all the same.
func SpokeClusterOf(c *v1alpha1.SpokeCluster) *SpokeCluster {
	kept := &SpokeCluster{MetaOf("SpokeCluster", c), *c.Spec.DeepCopy(), *c.Status.DeepCopy()}
	kept.Labels = maps.Clone(c.Labels)
	if kept.Spec.JoinToken != nil {
		kept.Spec.JoinToken.SHA256 = redacted
	}
	if kept.Status.RedeemedJoinToken != "" {
		kept.Status.RedeemedJoinToken = redacted
	}
	return kept
}

// kinds are those whose events are kept.
var kinds = []string{"DynamicConfigRender", "DynamicConfigClass", "ClusterDynamicConfigClass", "SpokeCluster"}

// EventOf copies an event of one of our objects; nil for any other.
func EventOf(e *corev1.Event) *Event {
	of := e.InvolvedObject
	if !slices.Contains(kinds, of.Kind) || !strings.HasPrefix(of.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return nil
	}
	last := e.LastTimestamp
	count := e.Count
	switch {
	case e.Series != nil:
		last, count = metav1.Time{Time: e.Series.LastObservedTime.Time}, e.Series.Count
	case last.IsZero():
		last = metav1.Time{Time: e.EventTime.Time}
	}
	return &Event{Object: of.Kind + "/" + of.Namespace + "/" + of.Name, Type: e.Type, Reason: e.Reason, Message: e.Message, Count: count, Last: last}
}
