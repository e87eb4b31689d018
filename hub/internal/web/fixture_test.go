package web_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// renderOf is a Render that wants a Secret of a cluster class.
func renderOf(name, class, key string) *v1alpha1.DynamicConfigRender {
	id := idOf(name)
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "u", Generation: 1},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: class, ClassKind: v1alpha1.ClassKindCluster, Key: key,
			Target: v1alpha1.RenderTarget{Secret: id.Name + "-config", File: "app.yaml"},
		},
	}
}

// spokeCluster is accepted, with a status.
func spokeCluster(name string, change func(*v1alpha1.SpokeCluster)) *v1alpha1.SpokeCluster {
	c := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SpokeClusterSpec{Accepted: true}}
	change(c)
	return c
}

// with sets what a status says of a session and of Renders.
func with(replica string, ready metav1.ConditionStatus, reason string, since time.Duration, counts v1alpha1.RenderCounts) func(*v1alpha1.SpokeCluster) {
	return func(c *v1alpha1.SpokeCluster) {
		at := metav1.NewTime(time.Now().Add(-since))
		if replica != "" {
			c.Status.Session = &v1alpha1.SpokeSession{Hub: replica, ConnectedAt: &at, AgentVersion: "v1.4.0"}
			c.Status.Renders = &counts
		}
		connected := metav1.ConditionFalse
		if ready == metav1.ConditionTrue {
			connected = metav1.ConditionTrue
		}
		c.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, LastTransitionTime: at},
			{Type: v1alpha1.ConditionConnected, Status: connected, Reason: reason, LastTransitionTime: at},
		}
	}
}

func class(name string, source v1alpha1.Source, ready metav1.ConditionStatus, reason, message string) *v1alpha1.ClusterDynamicConfigClass {
	return &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: source}},
		Status: v1alpha1.ClassStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Now().Add(-7 * time.Minute)),
		}}},
	}
}

// newFleet is a site with a fleet in which about everything is the matter.
func newFleet(t *testing.T) *site {
	t.Helper()
	const vault = "vault"
	s := newSite(t,
		spokeCluster("prod-eu", with("hub-0", metav1.ConditionTrue, v1alpha1.ReasonConnected, 17*time.Minute, v1alpha1.RenderCounts{Total: 6, Ready: 1, Failed: 4})),
		spokeCluster("prod-us", with("hub-0", metav1.ConditionTrue, v1alpha1.ReasonConnected, 24*time.Minute, v1alpha1.RenderCounts{Total: 2, Ready: 2})),
		spokeCluster("prod-ap", with("hub-1", metav1.ConditionTrue, v1alpha1.ReasonConnected, 19*time.Minute, v1alpha1.RenderCounts{Total: 40, Ready: 40})),
		spokeCluster("edge-07", with("hub-1", metav1.ConditionFalse, v1alpha1.ReasonDisconnected, 3*time.Hour, v1alpha1.RenderCounts{Total: 3, Ready: 2, Failed: 1})),
		spokeCluster("staging", func(c *v1alpha1.SpokeCluster) {
			with("", metav1.ConditionFalse, v1alpha1.ReasonSuspended, 50*time.Hour, v1alpha1.RenderCounts{})(c)
			c.Spec.Suspend = true
		}),
		class("shared", v1alpha1.SourceConsul, metav1.ConditionTrue, v1alpha1.ReasonClassReady, ""),
		class(vault, v1alpha1.SourceVault, metav1.ConditionFalse, v1alpha1.ReasonStoreSealed, "the store is sealed"),
	)
	suspended := renderOf("shop/suspended", "shared", "shop/app.yaml")
	suspended.Spec.Suspend = true
	s.connect("prod-eu",
		renderOf("shop/web", "shared", "shop/web.yaml"), renderOf("shop/payments", vault, "shop/payments.json"),
		renderOf("shop/orders", vault, "shop/orders.json"), renderOf("billing/api", "shared", "billing/api.yaml"),
		renderOf("billing/worker", "shared", "billing/worker.yaml"), suspended,
	)
	s.deliver("prod-eu", "shop/web", fleet.Applied, "")
	for _, name := range []string{"shop/payments", "shop/orders"} {
		s.refuse("prod-eu", name, fleet.Refusal{
			ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched, CauseReason: v1alpha1.ReasonStoreSealed,
			Message: "ClusterDynamicConfigClass/vault: fetch " + name + ".json: the store is sealed",
		})
	}
	s.refuse("prod-eu", "billing/api", fleet.Refusal{ReadyReason: v1alpha1.ReasonClassNotAllowed, Message: "no namespace selector of the class selects billing"})
	s.deliver("prod-eu", "billing/worker", fleet.Failed, v1alpha1.ReasonQuotaExceeded)
	s.connect("prod-us", renderOf("shop/web", "shared", "shop/web.yaml"), renderOf("shop/cart", "shared", "shop/cart.yaml"))
	s.deliver("prod-us", "shop/web", fleet.Applied, "")
	s.deliver("prod-us", "shop/cart", 0, "")
	return s
}
