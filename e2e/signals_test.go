package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// What both sides say of themselves holds no value, no document text and no credential,
// also where everything goes wrong that quotes one: a document that does not parse, a
// policy that words its denial with the object, a store that is away. The programs log
// at their most verbose level.
func TestCanary_NothingThatIsToldHoldsAValue(t *testing.T) {
	const value, text = "canary-value-81d0", "canary-text-c39e"
	spoke := fleet.Spokes[0]
	create(t, fleet.Hub.Cluster, namespace("signals-docs"), clusterClass("signals", "signals-docs"),
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "signals-docs", Name: "docs"},
			StringData: map[string]string{"good.json": `{"a":"` + value + `"}`, "bad.json": `{"a":"` + text + `"`},
		})
	for name, key := range map[string]string{"good": "good.json", "bad": "bad.json", "denied": "good.json"} {
		create(t, spoke.Cluster, namespace("signals-"+name))
		if name == "denied" {
			denySecrets(t, spoke.Cluster, "signals-denied")
		}
		r := render("signals-"+name, "signals", "secrets/docs/"+key)
		create(t, spoke.Cluster, r)
		// What is refused for ever is sent anew to each new session, which others count.
		t.Cleanup(func() { remove(t, spoke.Cluster, r) })
	}
	holds(t, spoke, "signals-good", "a", value)
	isReady(t, spoke, "signals-good", metav1.ConditionTrue, v1alpha1.ReasonRendered)
	for name, reason := range map[string]string{"bad": v1alpha1.ReasonDocumentInvalid, "denied": v1alpha1.ReasonAdmissionDenied} {
		isReady(t, spoke, "signals-"+name, metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
		hasEvent(t, spoke.Cluster, "signals-"+name, reason)
	}

	told := everythingTold(t, spoke)
	for place, said := range told {
		if len(said) == 0 {
			t.Errorf("%s: nothing to search", place)
		}
		for _, secret := range []string{value, text} {
			if bytes.Contains(said, []byte(secret)) {
				t.Errorf("%s: holds %s", place, secret)
			}
		}
	}
	for place, word := range map[string]string{
		"hub log": "Refused", "hub audit": "signals-good", "spoke log": "Target not written", "spoke events": v1alpha1.ReasonAdmissionDenied,
		"spoke statuses": v1alpha1.ReasonDocumentInvalid, "spoke metrics": "dynamicconfig_spoke_apply_total", "hub metrics": "dynamicconfig_hub_feeds",
		"hub profile /goroutine?debug=2": "syncserver", "spoke profile /goroutine?debug=2": "syncclient",
	} {
		if !bytes.Contains(told[place], []byte(word)) {
			t.Errorf("%s: the search does not even find %q", place, word)
		}
	}
}

// everythingTold is what can be read of both sides without reading a target.
func everythingTold(t *testing.T, spoke *stage.Spoke) map[string][]byte {
	t.Helper()
	told := map[string][]byte{
		"hub metrics": get(t, fleet.Hub.MetricsURL), "hub health": get(t, fleet.Hub.HealthURL+"?verbose=1"),
		"spoke metrics": get(t, spoke.MetricsURL), "spoke health": get(t, spoke.HealthURL+"?verbose=1"),
	}
	for place, profiles := range map[string]string{"hub": fleet.Hub.Replicas[0].ProfilesURL, "spoke": spoke.ProfilesURL} {
		for _, page := range []string{"/heap?debug=1", "/goroutine?debug=2", "/cmdline", "/trace?seconds=1"} {
			told[place+" profile "+page] = get(t, profiles+page)
		}
	}
	for name, read := range map[string]func() ([]byte, error){"hub log": fleet.Hub.Log, "hub audit": fleet.Hub.Audit, "spoke log": spoke.Log} {
		said, err := read()
		if err != nil {
			t.Fatal(err)
		}
		told[name] = said
	}
	for name, c := range map[string]*testenv.Cluster{"hub": fleet.Hub.Cluster, "spoke": spoke.Cluster} {
		told[name+" statuses"] = listed(t, c,
			&v1alpha1.DynamicConfigRenderList{}, &v1alpha1.DynamicConfigClassList{}, &v1alpha1.ClusterDynamicConfigClassList{}, &v1alpha1.SpokeClusterList{})
		told[name+" events"] = listed(t, c, &eventsv1.EventList{})
	}
	return told
}

// listed are all objects of some kinds, as an administrator reads them.
func listed(t *testing.T, c *testenv.Cluster, lists ...client.ObjectList) []byte {
	t.Helper()
	var said bytes.Buffer
	for _, list := range lists {
		if err := c.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		said.Write(text)
	}
	return said.Bytes()
}

// get reads a page, whatever its status.
func get(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%s\n%s", response.Status, text)
}

// hasEvent waits for an event of a reason in a namespace.
func hasEvent(t *testing.T, c *testenv.Cluster, namespace, reason string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		var events eventsv1.EventList
		g.Expect(c.Client.List(t.Context(), &events, client.InNamespace(namespace))).To(gomega.Succeed())
		g.Expect(events.Items).To(gomega.ContainElement(gomega.HaveField("Reason", reason)))
	}).WithTimeout(patience).Should(gomega.Succeed())
}

// denySecrets has the API server deny every Secret of a namespace in words that quote
// it, and waits until it does.
func denySecrets(t *testing.T, c *testenv.Cluster, namespace string) {
	t.Helper()
	create(t, c, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: "'it holds ' + string(object.data['a'])"}},
		},
	}, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	})
	gomega.NewWithT(t).Eventually(func() error {
		return c.Client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-"}, Data: map[string][]byte{"a": []byte("x")},
		})
	}).WithTimeout(patience).Should(gomega.HaveOccurred())
}
