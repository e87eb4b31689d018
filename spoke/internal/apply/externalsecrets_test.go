package apply_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// The order of steps in docs/migrate-external-secrets.md, and the way back, with a Secret
// as External Secrets Operator makes it.
func TestApply_ASecretOfExternalSecretsIsTakenOverOnceItIsReleased(t *testing.T) {
	f := newFixture(t)
	external := f.externalSecret("database")
	made := f.create(madeBy(external))

	r := f.render("database", adopt)
	refused := f.refused(v1alpha1.ReasonTargetConflict, r, "id1", "a", "ours")
	if !strings.Contains(refused.Message, `ExternalSecret "database"`) {
		t.Errorf("the message must name the owner: %q", refused.Message)
	}
	f.wantData("a", "theirs")

	// With creationPolicy Orphan the operator takes its reference off; the data stays.
	f.edit(func(s *corev1.Secret) { s.OwnerReferences = nil })
	f.must(f.client.Delete(t.Context(), external))
	f.written(true, r, "id1", "a", "ours")
	f.wantData("a", "ours")
	if s := f.secret("target"); s.UID != made.UID || !metav1.IsControlledBy(s, r) {
		t.Errorf("want the same object, controlled by the Render, got %v", s.OwnerReferences)
	}

	// Back: the operator claims a Secret that nobody controls.
	f.update(r, retain)
	f.written(true, r, "id1", "a", "ours")
	f.must(f.client.Delete(t.Context(), r))
	again := f.externalSecret("database")
	f.edit(madeBy(again))
	f.wantData("a", "ours")
	if s := f.secret("target"); s.UID != made.UID || !metav1.IsControlledBy(s, again) {
		t.Errorf("want the same object, controlled by the ExternalSecret, got %v", s.OwnerReferences)
	}
}

func TestApply_AKeyThatExternalSecretsWroteAndTheDocumentLacksStays(t *testing.T) {
	f := newFixture(t)
	f.create(func(s *corev1.Secret) { s.Data["left"] = []byte("theirs") })
	f.written(true, f.render("database", adopt, retain), "id1", "a", "ours")
	f.wantData("a", "ours", "left", "theirs")
}

func TestApply_AnExternalSecretThatGoesTooEarlyTakesItsSecretAlong(t *testing.T) {
	f := newFixture(t)
	external := f.externalSecret("database")
	f.create(madeBy(external))
	f.must(f.client.Delete(t.Context(), external))
	key := client.ObjectKey{Namespace: f.namespace, Name: "target"}
	gomega.NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(f.client.Get(t.Context(), key, &corev1.Secret{}))
	}, patience).Should(gomega.BeTrue())
}

// madeBy gives a Secret the owner that External Secrets Operator gives it.
func madeBy(external client.Object) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(external, external.GetObjectKind().GroupVersionKind())}
		s.Labels = map[string]string{"reconcile.external-secrets.io/managed": "true"}
	}
}

// externalSecret creates an ExternalSecret; nobody looks after it here.
func (f *fixture) externalSecret(name string) *unstructured.Unstructured {
	f.Helper()
	f.must(client.IgnoreAlreadyExists(f.client.Create(f.Context(), externalSecrets())))
	external := &unstructured.Unstructured{}
	external.SetAPIVersion("external-secrets.io/v1")
	external.SetKind("ExternalSecret")
	external.SetNamespace(f.namespace)
	external.SetName(name)
	gomega.NewWithT(f).Eventually(func(ctx context.Context) error { // the kind is served a moment later
		return f.client.Create(ctx, external)
	}, patience).WithContext(f.Context()).Should(gomega.Succeed())
	return external
}

// externalSecrets defines the kind as far as owning a Secret goes.
func externalSecrets() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "externalsecrets.external-secrets.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "external-secrets.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "externalsecrets", Singular: "externalsecret", Kind: "ExternalSecret", ListKind: "ExternalSecretList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}
