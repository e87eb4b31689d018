package classes_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// recorded is a SecretReader that has every Secret and remembers which were read.
type recorded struct {
	mu    sync.Mutex // guards names
	names []string
}

func (r *recorded) Data(_ context.Context, namespace, name string) (map[string][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, namespace+"/"+name)
	return map[string][]byte{"token": []byte("t"), "ca.crt": []byte("c"), "tls.crt": []byte("c"), "tls.key": []byte("k")}, nil
}

// reads are the Secrets that a class's source reads, each once, sorted.
func (r *rig) reads(ref classes.Ref) []string {
	r.t.Helper()
	secrets := &recorded{}
	resolver := &classes.Resolver{Objects: hub.Client, Secrets: secrets, Open: func(*classes.Class, classes.Credential) (store.Reader, error) { return memory.New(), nil }}
	class, err := resolver.Find(r.t.Context(), ref)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := resolver.Source(r.t.Context(), class); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(secrets.names)
	return slices.Compact(secrets.names)
}

var common = v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "http://consul.example:8500"}

// ownNamespace: whatever a namespaced class names is looked for in its own namespace.
func ownNamespace(t *testing.T) {
	t.Helper()
	r := newRig(t)
	r.create(&v1alpha1.DynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "c"},
		Spec: v1alpha1.DynamicConfigClassSpec{
			ClassCommon: common, TokenSecret: &v1alpha1.LocalSecretReference{Name: "platform"},
			TLS: &v1alpha1.LocalClassTLS{
				CASecret: &v1alpha1.LocalSecretReference{Name: "ca"}, ClientCertSecret: &v1alpha1.LocalCertificateReference{Name: "cert"},
			},
		},
	})
	read := r.reads(classes.Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: r.namespace, Name: "c"})
	if want := []string{r.namespace + "/ca", r.namespace + "/cert", r.namespace + "/platform"}; !slices.Equal(read, want) {
		t.Errorf("it read %v, want %v", read, want)
	}
}

// stated: a cluster class reads what it names, and nothing of another namespace.
func stated(t *testing.T) {
	t.Helper()
	r := newRig(t)
	r.create(&v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: common, TokenSecret: &v1alpha1.SecretReference{Namespace: "infra", Name: "token"},
			TLS: &v1alpha1.ClassTLS{
				CASecret: &v1alpha1.SecretReference{Namespace: "pki", Name: "ca"}, ClientCertSecret: &v1alpha1.CertificateReference{Namespace: "pki", Name: "cert"},
			},
			Kubernetes: &v1alpha1.KubernetesOptions{Namespace: "docs"}, Namespaces: []string{"shop"},
		},
	})
	ref := classes.Ref{Kind: v1alpha1.ClassKindCluster, Name: r.namespace}
	if read, want := r.reads(ref), []string{"infra/token", "pki/ca", "pki/cert"}; !slices.Equal(read, want) {
		t.Errorf("it read %v, want %v", read, want)
	}
	class, err := r.resolver.Find(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if class.Documents != "docs" || !slices.Equal(class.Policy.Namespaces, []string{"shop"}) {
		t.Errorf("documents in %q, for %v", class.Documents, class.Policy.Namespaces)
	}
}

// tenancy: a store's own namespace is no Kubernetes one: nothing is read there, and the
// documents of a namespaced class stay in its own.
func tenancy(t *testing.T) {
	t.Helper()
	r := newRig(t)
	spec := common
	spec.Consul, spec.Vault = &v1alpha1.ConsulOptions{Namespace: "kube-system"}, &v1alpha1.VaultOptions{Namespace: "kube-system"}
	r.create(&v1alpha1.DynamicConfigClass{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "c"}, Spec: v1alpha1.DynamicConfigClassSpec{ClassCommon: spec}})
	ref := classes.Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: r.namespace, Name: "c"}
	if read := r.reads(ref); len(read) > 0 {
		t.Errorf("it read %v", read)
	}
	if class, err := r.resolver.Find(t.Context(), ref); err != nil || class.Documents != r.namespace {
		t.Errorf("documents in %q, %v", class.Documents, err)
	}
}

// ownClass: a Render that names a class of the namespaced kind gets that of its own
// namespace, whatever the name looks like.
func ownClass(t *testing.T) {
	t.Helper()
	for _, name := range []string{"c", "other/c", "../other/c", ""} {
		r := &v1alpha1.DynamicConfigRender{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r"}}
		r.Spec.Class = name
		if got := classes.RefOf(r); got.Namespace != "shop" || got.Name != name {
			t.Errorf("%q is %+v", name, got)
		}
	}
}

// local: the field cannot name another namespace, since it has no place for one.
func local(of any) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if _, has := reflect.TypeOf(of).FieldByName("Namespace"); has {
			t.Errorf("%T names a namespace", of)
		}
	}
}

// boundaries say for each field that reaches for another object where it may reach, by
// a case that shows it.
var boundaries = map[string]func(*testing.T){
	"DynamicConfigClass.tokenSecret":          ownNamespace,
	"DynamicConfigClass.tls.caSecret":         ownNamespace,
	"DynamicConfigClass.tls.clientCertSecret": ownNamespace,
	"DynamicConfigClass.consul.namespace":     tenancy,
	"DynamicConfigClass.vault.namespace":      tenancy,

	"ClusterDynamicConfigClass.tokenSecret":          stated,
	"ClusterDynamicConfigClass.tls.caSecret":         stated,
	"ClusterDynamicConfigClass.tls.clientCertSecret": stated,
	"ClusterDynamicConfigClass.kubernetes.namespace": stated,
	"ClusterDynamicConfigClass.namespaces":           stated,
	"ClusterDynamicConfigClass.consul.namespace":     tenancy,
	"ClusterDynamicConfigClass.vault.namespace":      tenancy,

	"DynamicConfigRender.class":            ownClass,
	"DynamicConfigRender.classKind":        ownClass,
	"DynamicConfigRender.target.secret":    local(v1alpha1.RenderTarget{}),
	"DynamicConfigRender.target.configMap": local(v1alpha1.RenderTarget{}),

	// In the workload cluster: the hub reaches for nothing there, it compares the name
	// with a token's. The attack table holds the case of another one.
	"SpokeCluster.serviceAccount": nil,
}

// reaches says whether a field, by its type or its name, reaches for another object.
func reaches(name string, kind reflect.Type) bool {
	if strings.HasSuffix(kind.Name(), "Reference") {
		return true
	}
	name = strings.ToLower(name)
	return kind.Kind() != reflect.Struct && slices.ContainsFunc([]string{"namespace", "secret", "configmap", "class", "serviceaccount"},
		func(word string) bool { return strings.Contains(name, word) })
}

// fields are the paths of a type's fields that reach for another object.
func fields(at string, kind reflect.Type) []string {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || kind == reflect.TypeFor[metav1.LabelSelector]() {
		return nil
	}
	var found []string
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // inline
			found = append(found, fields(at, field.Type)...)
			continue
		}
		of := field.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if reaches(name, of) {
			found = append(found, at+"."+name)
			continue
		}
		found = append(found, fields(at+"."+name, of)...)
	}
	return found
}

// A field that is added to the API and reaches for another object fails here until the
// table says, and shows, where it may reach.
func TestAPI_EveryReferenceHasABoundary(t *testing.T) {
	var found []string
	for name, spec := range map[string]reflect.Type{
		"DynamicConfigClass": reflect.TypeFor[v1alpha1.DynamicConfigClassSpec](), "ClusterDynamicConfigClass": reflect.TypeFor[v1alpha1.ClusterDynamicConfigClassSpec](),
		"DynamicConfigRender": reflect.TypeFor[v1alpha1.DynamicConfigRenderSpec](), "SpokeCluster": reflect.TypeFor[v1alpha1.SpokeClusterSpec](),
	} {
		found = append(found, fields(name, spec)...)
	}
	var stated []string
	for path := range boundaries {
		stated = append(stated, path)
	}
	slices.Sort(found)
	slices.Sort(stated)
	if diff := cmp.Diff(stated, found); diff != "" {
		t.Errorf("fields that reach for another object (-in the table +in the API):\n%s", diff)
	}
	for path, shows := range boundaries {
		if shows != nil {
			t.Run(path, shows)
		}
	}
}

// The walk itself finds what it should.
func TestFields(t *testing.T) {
	type other struct {
		SomeSecret *v1alpha1.SecretReference `json:"some"`
		Deep       []struct {
			Namespace *string `json:"inNamespace"`
		} `json:"deep"`
		Plain string `json:"plain"`
	}
	want := []string{"x.some", "x.deep.inNamespace"}
	if diff := cmp.Diff(want, fields("x", reflect.TypeFor[other]())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
