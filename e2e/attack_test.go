package e2e_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// line is what a line of the audit log must hold.
type line map[string]string

// audited counts the lines of the audit log that hold what a line holds.
func audited(t *testing.T, want line) int {
	t.Helper()
	text, err := fleet.Hub.Audit()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for raw := range bytes.Lines(text) {
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		holds := true
		for key, value := range want {
			holds = holds && got[key] == value
		}
		if holds {
			count++
		}
	}
	return count
}

// isAudited runs an attack and waits for one line more that holds what it must.
func isAudited(t *testing.T, want line, attack func()) {
	t.Helper()
	before := audited(t, want)
	attack()
	gomega.NewWithT(t).Eventually(func() int { return audited(t, want) - before }).WithTimeout(patience).
		Should(gomega.BeNumerically(">", 0), "no line of the audit log holds %v", want)
}

// TestAttacks_OnASession: whoever comes without the certificate of an admitted cluster
// gets no session, a reason, and a line.
func TestAttacks_OnASession(t *testing.T) {
	const name = "attacked-session"
	register(t, name)
	suspended := register(t, name+"-suspended")
	update(t, fleet.Hub.Cluster, suspended, func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = true })
	root, foreign := hubRoot(t), newForger(t)
	in := func(from, to time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to) }
	}
	invalid := verdict{codes.Unauthenticated, identity.ReasonCertificateInvalid}
	expired := verdict{codes.Unauthenticated, identity.ReasonCertificateExpired}
	for title, tc := range map[string]struct {
		certificate *tls.Certificate
		want        verdict
		cluster     string // proven by then
	}{
		"no certificate":                         {nil, verdict{codes.Unauthenticated, identity.ReasonCertificateMissing}, ""},
		"an expired certificate":                 {root.forge(t, in(-2*time.Hour, -time.Hour), name), expired, ""},
		"a certificate that is not valid yet":    {root.forge(t, in(time.Hour, 2*time.Hour), name), expired, ""},
		"two clusters in one certificate":        {root.forge(t, nil, name, "east"), invalid, ""},
		"a certificate of a foreign root":        {foreign.forge(t, nil, name), invalid, ""},
		"a certificate below a cluster's own":    {root.below(t, name).forge(t, nil, name), invalid, ""},
		"the hub's own kind of certificate":      {root.forge(t, serverAuth, name), invalid, ""},
		"a prefix of a cluster's name":           {root.forge(t, nil, name[:len(name)-1]), verdict{codes.PermissionDenied, identity.ReasonUnknownCluster}, name[:len(name)-1]},
		"the certificate of a suspended cluster": {root.forge(t, nil, suspended.Name), verdict{codes.FailedPrecondition, identity.ReasonSuspended}, suspended.Name},
	} {
		t.Run(title, func(t *testing.T) {
			want := line{"event": "session", "verdict": "refused", "reason": tc.want.reason, "from": fleet.From()}
			if tc.cluster != "" {
				want["cluster"] = tc.cluster
			}
			isAudited(t, want, func() {
				if _, err := openSession(t, tc.certificate); verdictOf(err) != tc.want {
					t.Errorf("verdict %+v, want %+v", verdictOf(err), tc.want)
				}
			})
		})
	}
	if _, err := openSession(t, root.forge(t, nil, name)); err != nil {
		t.Errorf("the certificate that all the others differ from is refused: %v", err)
	}
}

// TestAttacks_OnAClass: a cluster that holds a session and says what it likes gets no
// document that its class does not serve it.
func TestAttacks_OnAClass(t *testing.T) {
	const name = "attacked-class"
	register(t, name)
	create(t, fleet.Hub.Cluster, namespace(name), namespace(name+"-b"),
		clusterClass(name, name, func(s *v1alpha1.ClusterDynamicConfigClassSpec) {
			s.Namespaces, s.Keys = []string{"shop"}, []string{"configmaps/{cluster}/*", "secrets/{cluster}"}
		}),
		clusterClass(name+"-prod", name, func(s *v1alpha1.ClusterDynamicConfigClassSpec) {
			s.Clusters = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
		}),
		&v1alpha1.DynamicConfigClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: name + "-b", Name: "theirs"},
			Spec:       v1alpha1.DynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceKubernetes}},
		},
		configMap(name, name, "app.json", `{"colour":"red"}`), secret(name, name, "password", "canary-attack"))
	stream, err := openSession(t, hubRoot(t).forge(t, nil, name))
	if err != nil {
		t.Fatal(err)
	}
	good := "configmaps/" + name + "/app.json"
	spec := func(change func(*fleetv1.RenderSpec)) *fleetv1.RenderSpec {
		s := &fleetv1.RenderSpec{
			Ref: &fleetv1.RenderRef{Namespace: "shop", Name: "good", Uid: "1"}, Generation: 1, Class: name, ClassKind: fleetv1.ClassKind_CLASS_KIND_CLUSTER, Key: good,
			Target: &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_SECRET, Name: "t", Shape: fleetv1.Shape_SHAPE_ENTRIES},
		}
		change(s)
		return s
	}
	key := func(raw string) func(*fleetv1.RenderSpec) { return func(s *fleetv1.RenderSpec) { s.Key = raw } }
	notAllowed, keyInvalid, notFound := v1alpha1.ReasonClassNotAllowed, v1alpha1.ReasonKeyInvalid, v1alpha1.ReasonClassNotFound
	for title, tc := range map[string]struct {
		change       func(*fleetv1.RenderSpec)
		reason, rule string
	}{
		"a key of another cluster":           {key("configmaps/east/app.json"), notAllowed, "keys"},
		"a key with more behind it":          {key(good + "/more"), notAllowed, "keys"},
		"a parent segment":                   {key("configmaps/" + name + "/../kube-root-ca.crt"), keyInvalid, "key"},
		"an escaped parent segment":          {key("configmaps/" + name + "/%2e%2e"), keyInvalid, "key"},
		"an empty segment":                   {key("configmaps//" + name), keyInvalid, "key"},
		"dots that only look like dots":      {key("configmaps/\uff0e\uff0e/app.json"), notAllowed, "keys"},
		"a slash that only looks like one":   {key("configmaps\uff0f" + name + "/app.json"), notAllowed, "keys"},
		"a line of its own in the audit log": {key("a\n{\"event\":\"enrolment\"}"), keyInvalid, "key"},
		"another namespace":                  {func(s *fleetv1.RenderSpec) { s.Ref.Namespace = "kube-system" }, notAllowed, "namespace"},
		"a class of another namespace":       {func(s *fleetv1.RenderSpec) { s.Class, s.ClassKind = "theirs", fleetv1.ClassKind_CLASS_KIND_NAMESPACED }, notFound, "class"},
		"a class of another namespace, by path": {func(s *fleetv1.RenderSpec) {
			s.Class, s.ClassKind = name+"-b/theirs", fleetv1.ClassKind_CLASS_KIND_NAMESPACED
		}, notFound, "class"},
		"labels that the spoke says it has": {func(s *fleetv1.RenderSpec) { s.Class = name + "-prod" }, notAllowed, "clusters"},
		"a secret document for a ConfigMap": {func(s *fleetv1.RenderSpec) {
			s.Key, s.Target.Kind = "secrets/"+name, fleetv1.TargetKind_TARGET_KIND_CONFIG_MAP
		}, v1alpha1.ReasonSecrecyDowngrade, "target"},
	} {
		t.Run(title, func(t *testing.T) {
			asked := spec(tc.change)
			asked.Ref.Name = objectName(title)
			want := line{
				"event": "decision", "verdict": "refused", "cluster": name, "namespace": asked.GetRef().GetNamespace(), "render": asked.GetRef().GetName(),
				"reason": tc.reason, "rule": tc.rule,
			}
			isAudited(t, want, func() {
				stream.refused(t, asked, tc.reason)
			})
		})
	}
	isAudited(t, line{"event": "decision", "verdict": "allowed", "cluster": name, "render": "good", "key": good}, func() {
		if deliver := stream.served(t, spec(func(*fleetv1.RenderSpec) {})); string(deliver.GetData()["colour"]) != "red" {
			t.Errorf("what all the others differ from is not served: %v", deliver)
		}
	})

	t.Run("a class that is taken away", func(t *testing.T) {
		class, began := clusterClass(name, name), time.Now()
		update(t, fleet.Hub.Cluster, class, func(c *v1alpha1.ClusterDynamicConfigClass) { c.Spec.Namespaces = []string{"others"} })
		if got := stream.answer(t, "good").GetRefusal().GetReadyReason(); got != notAllowed {
			t.Errorf("answered with %q", got)
		}
		t.Logf("ClassNotAllowed %.3f s after the edit of the class", time.Since(began).Seconds())
	})
	t.Run("a cluster that is suspended", func(t *testing.T) {
		cluster, began := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, time.Now()
		isAudited(t, line{"event": "session", "verdict": "refused", "cluster": name, "reason": identity.ReasonSuspended}, func() {
			update(t, fleet.Hub.Cluster, cluster, func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = true })
			if got := verdictOf(stream.end()); got != (verdict{codes.FailedPrecondition, identity.ReasonSuspended}) {
				t.Errorf("the session ended with %+v", got)
			}
			t.Logf("the session was closed %.3f s after the suspension", time.Since(began).Seconds())
		})
	})
}
