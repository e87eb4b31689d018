package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// readTimeout bounds how long a scrape waits for a cache that is not filled yet.
const readTimeout = time.Second

// Objects shows the state of the hub's SpokeClusters and classes, as its cache has them
// when it is asked: a series ends with its object, those of stores too.
type Objects struct {
	read   func() (*objects, error)
	stores *Stores

	connected, classReady, classRenders *prometheus.Desc
}

// objects are those of the hub's cluster.
type objects struct {
	spokes     v1alpha1.SpokeClusterList
	clusterOwn v1alpha1.ClusterDynamicConfigClassList
	namespaced v1alpha1.DynamicConfigClassList
}

var _ prometheus.Collector = (*Objects)(nil)

// NewObjects returns Objects that reads the hub's cache until the context ends.
func NewObjects(ctx context.Context, hub client.Reader, stores *Stores) *Objects {
	return &Objects{
		stores: stores,
		read: func() (*objects, error) {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			o := &objects{}
			for _, list := range []client.ObjectList{&o.spokes, &o.clusterOwn, &o.namespaced} {
				if err := hub.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
					return nil, err
				}
			}
			return o, nil
		},
		connected: prometheus.NewDesc("dynamicconfig_hub_spoke_connected",
			"Whether a SpokeCluster that may hold a session does so, with any replica.", []string{"cluster"}, nil),
		classReady: prometheus.NewDesc("dynamicconfig_hub_class_ready",
			"Whether a class can be used: its credential is there and its store answers. There is none before the first look.", []string{"class"}, nil),
		classRenders: prometheus.NewDesc("dynamicconfig_hub_class_renders",
			"Renders that use a class, as the SpokeClusters count them, by state: ready, failed or waiting.", []string{"class", "state"}, nil),
	}
}

// Describe is prometheus.Collector's.
func (o *Objects) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- o.connected
	descriptions <- o.classReady
	descriptions <- o.classRenders
	o.stores.requests.Describe(descriptions)
	o.stores.seconds.Describe(descriptions)
}

// Collect is prometheus.Collector's.
func (o *Objects) Collect(out chan<- prometheus.Metric) {
	if all, err := o.read(); err == nil { // else the hub starts or ends
		for i := range all.spokes.Items {
			spoke := &all.spokes.Items[i]
			if !spoke.Spec.Accepted || spoke.Spec.Suspend {
				continue // it is not to have one
			}
			out <- gauge(o.connected, truth(spoke.Status.Conditions, v1alpha1.ConditionConnected), spoke.Name)
		}
		o.stores.keep(o.collectClasses(all, out))
	}
	o.stores.requests.Collect(out)
	o.stores.seconds.Collect(out)
}

// collectClasses answers the IDs of the classes there are.
func (o *Objects) collectClasses(all *objects, out chan<- prometheus.Metric) map[string]bool {
	ids := map[string]bool{}
	for i := range all.clusterOwn.Items {
		c := &all.clusterOwn.Items[i]
		id := v1alpha1.ClassID(v1alpha1.ClassKindCluster, "", c.Name)
		ids[id] = true
		o.collectClass(id, &c.Status, out)
	}
	for i := range all.namespaced.Items {
		c := &all.namespaced.Items[i]
		id := v1alpha1.ClassID(v1alpha1.ClassKindNamespaced, c.Namespace, c.Name)
		ids[id] = true
		o.collectClass(id, &c.Status, out)
	}
	return ids
}

func (o *Objects) collectClass(id string, status *v1alpha1.ClassStatus, out chan<- prometheus.Metric) {
	if apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady) != nil {
		out <- gauge(o.classReady, truth(status.Conditions, v1alpha1.ConditionReady), id)
	}
	if n := status.Renders; n != nil {
		out <- gauge(o.classRenders, float64(n.Ready), id, "ready")
		out <- gauge(o.classRenders, float64(n.Failed), id, "failed")
		out <- gauge(o.classRenders, float64(n.Total-n.Ready-n.Failed), id, "waiting")
	}
}

// truth is 1 for a condition that is true, and 0 for any other.
func truth(conditions []metav1.Condition, condition string) float64 {
	if apimeta.IsStatusConditionTrue(conditions, condition) {
		return 1
	}
	return 0
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}
