package e2e_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// pageViewer is a client of the fleet page at an address, with the token of who may see it.
type pageViewer struct {
	url, token string
	client     *http.Client
}

// newPageViewer does on the hub's cluster what docs/fleet-page.md says.
func newPageViewer(t *testing.T, address string) *pageViewer {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: stage.Namespace, Name: "fleet-viewer"}}
	create(t, fleet.Hub.Cluster, account, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet-viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "dynamic-config-hub-web-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: stage.Namespace, Name: "fleet-viewer"}},
	})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"dynamic-config-fleet-page"}}}
	if err := fleet.Hub.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	ca, err := fleet.Hub.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	t.Cleanup(transport.CloseIdleConnections)
	return &pageViewer{url: "https://" + address, token: request.Status.Token, client: &http.Client{Transport: transport}}
}

// get reads a page.
func (v *pageViewer) get(t *testing.T, g gomega.Gomega, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+path, http.NoBody)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+v.token)
	response, err := v.client.Do(request)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(response.StatusCode).To(gomega.Equal(http.StatusOK), string(text))
	return string(text)
}

// The fleet page of a replica, with the rights that the manifests give, says what the
// replica knows, says which replica knows the rest, and shows no value.
func TestPage_SaysWhatTheReplicaKnowsAndNoValue(t *testing.T) {
	const value = "canary-page-77ab"
	if err := fleet.Hub.ApplyDir(t.Context(), filepath.Join("..", "deploy", "kustomize", "hub-web")); err != nil {
		t.Fatal(err)
	}
	putConsul(t, "page/good.json", `{"colour":"`+value+`"}`)
	class := consulClass(t, "page", "page/", countRequests(t))
	credential := &corev1.Secret{}
	if err := fleet.Hub.Client.Get(t.Context(), keyOf(class.Spec.TokenSecret), credential); err != nil {
		t.Fatal(err)
	}
	spoke := fleet.Spokes[0]
	for name, key := range map[string]string{"page-good": "page/good.json", "page-bad": "page/none.json"} {
		r := render(name, "page", key)
		create(t, spoke.Cluster, namespace(name), r)
		t.Cleanup(func() { remove(t, spoke.Cluster, r) })
	}
	holds(t, spoke, "page-good", "colour", value)
	isReady(t, spoke, "page-bad", metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)

	ports, err := testenv.FreePorts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	agentsAreConnected(t) // to the first replica: the second is to hold no session
	defer toOneReplica(t)
	replicas := scale(t, 2, "--web-address=127.0.0.1:"+ports[0])
	viewer := newPageViewer(t, "localhost:"+ports[0])
	g := gomega.NewWithT(t)

	g.Eventually(func(g gomega.Gomega) {
		g.Expect(viewer.get(t, g, "/")).To(gomega.And(
			gomega.ContainSubstring("It holds the sessions of 0 clusters"), gomega.ContainSubstring("known to "+replicas[0].Name)))
		g.Expect(viewer.get(t, g, "/renders?cluster="+spoke.Name)).To(gomega.ContainSubstring("holds its session with replica " + replicas[0].Name))
	}).WithTimeout(patience).Should(gomega.Succeed())

	fleet.Hub.Route(replicas[1])
	fleet.Hub.Proxy.Cut(replicas[0].Address)
	isWith(t, replicas[1])
	all := ""
	g.Eventually(func(g gomega.Gomega) {
		all = ""
		for path, want := range map[string]string{
			"/":        `<th scope="row"><a href="/renders?cluster=` + spoke.Name + `">` + spoke.Name,
			"/renders": `href="/renders/` + spoke.Name + `/page-bad/render"`,
			"/renders/" + spoke.Name + "/page-bad/render":  v1alpha1.ReasonDocumentNotFound,
			"/renders/" + spoke.Name + "/page-good/render": "version delivered last",
			"/renders?cluster=" + spoke.Name:               `href="/renders/` + spoke.Name + `/page-good/render"`,
		} {
			text := viewer.get(t, g, path)
			g.Expect(text).To(gomega.ContainSubstring(want), path)
			all += text
		}
	}).WithTimeout(patience).Should(gomega.Succeed())

	log, err := replicas[1].Log()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	audits, err := fleet.Hub.Audit()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for place, said := range map[string][]byte{"the pages": []byte(all), "the log": log, "the audit log": audits} {
		for what, secret := range map[string]string{"the document": value, "the store's credential": string(credential.Data["token"]), "the viewer's token": viewer.token} {
			if bytes.Contains(said, []byte(secret)) {
				t.Errorf("%s hold %s", place, what)
			}
		}
	}
	if !strings.Contains(all, "page/good.json") {
		t.Error("the search does not even find the document's key")
	}
}
