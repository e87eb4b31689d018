package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// A store that answers nothing for a while changes no target, is said to be the store's
// problem, and needs nobody once it is back.
func TestOutage_OfAStoreTouchesNoTargetAndEndsByItself(t *testing.T) {
	const documents = 8
	front := countRequests(t)
	class := consulClass(t, "outage", "outage/", front)
	names := make([]string, 0, documents)
	before := map[string]*corev1.Secret{}
	for n := range documents {
		name, key := fmt.Sprintf("outage-%d", n), fmt.Sprintf("outage/%d.json", n)
		names = append(names, name)
		putConsul(t, key, `{"colour":"red"}`)
		namespaces(t, name)
		for _, spoke := range fleet.Spokes {
			create(t, spoke.Cluster, render(name, "outage", key))
			before[spoke.Name+name] = holds(t, spoke, name, "colour", "red")
		}
	}

	front.refuse(true)
	east := fleet.Spoke("east")
	for _, name := range names {
		isBecause(t, east, name, v1alpha1.ConditionFetched, v1alpha1.ReasonStoreUnreachable)
	}
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		g.Expect(fleet.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class)).To(gomega.Succeed())
		ready := apimeta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionReady)
		g.Expect(ready).NotTo(gomega.BeNil())
		g.Expect(ready.Reason).To(gomega.Equal(v1alpha1.ReasonStoreUnreachable))
	}).WithTimeout(patience).Should(gomega.Succeed(), "the class does not say so")
	for _, spoke := range fleet.Spokes {
		for _, name := range names {
			after, err := target(t.Context(), spoke, name)
			if err != nil {
				t.Fatal(err)
			}
			if after.ResourceVersion != before[spoke.Name+name].ResourceVersion {
				t.Errorf("%s: the target in %s was written while the store was away", spoke.Name, name)
			}
		}
	}

	for n := range documents {
		putConsul(t, fmt.Sprintf("outage/%d.json", n), `{"colour":"blue"}`)
	}
	front.refuse(false)
	began := time.Now()
	for _, spoke := range fleet.Spokes {
		for _, name := range names {
			holds(t, spoke, name, "colour", "blue")
			isReady(t, spoke, name, metav1.ConditionTrue, v1alpha1.ReasonRendered)
		}
	}
	t.Logf("all targets hold what was written meanwhile %.1f s after the end of the outage; the interval is a day", time.Since(began).Seconds())
}
