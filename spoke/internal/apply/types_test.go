package apply_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// What the API server would refuse is refused before it is asked, and nothing else.
func TestApply_SecretTypesAreJudgedAsTheAPIServerDoes(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		of       corev1.SecretType
		data     []string
		wantText string // empty: it is fine
	}{
		"a TLS Secret":                        {corev1.SecretTypeTLS, []string{"tls.crt", canary, "tls.key", canary}, ""},
		"a TLS Secret with more":              {corev1.SecretTypeTLS, []string{"tls.crt", "", "tls.key", "", "ca.crt", canary}, ""},
		"a TLS Secret without its key":        {corev1.SecretTypeTLS, []string{"tls.crt", canary}, "tls.key"},
		"a Docker configuration":              {corev1.SecretTypeDockerConfigJson, []string{".dockerconfigjson", `{"auths":{}}`}, ""},
		"a Docker configuration of no JSON":   {corev1.SecretTypeDockerConfigJson, []string{".dockerconfigjson", canary}, ".dockerconfigjson"},
		"a Docker configuration that is none": {corev1.SecretTypeDockerConfigJson, []string{"config.json", "{}"}, ".dockerconfigjson"},
		"an old Docker configuration":         {corev1.SecretTypeDockercfg, []string{".dockercfg", `{}`}, ""},
		"an old one of no JSON object":        {corev1.SecretTypeDockercfg, []string{".dockercfg", `["` + canary + `"]`}, ".dockercfg"},
		"a name and a password":               {corev1.SecretTypeBasicAuth, []string{"username", "u", "password", canary}, ""},
		"a password alone":                    {corev1.SecretTypeBasicAuth, []string{"password", canary}, ""},
		"neither name nor password":           {corev1.SecretTypeBasicAuth, []string{"user", canary}, "username"},
		"an SSH key":                          {corev1.SecretTypeSSHAuth, []string{"ssh-privatekey", canary}, ""},
		"an empty SSH key":                    {corev1.SecretTypeSSHAuth, []string{"ssh-privatekey", ""}, "ssh-privatekey"},
		"a ServiceAccount's token":            {corev1.SecretTypeServiceAccountToken, []string{"token", canary}, "cluster"},
		"a type of one's own":                 {"example.com/own", []string{"a", canary}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{T: t, namespace: f.namespace, client: f.client, applier: f.applier}
			target := strings.ReplaceAll(strings.ToLower(strings.NewReplacer("'", "", " ", "-").Replace(name)), "_", "-")
			r := f.render(target, func(r *v1alpha1.DynamicConfigRender) {
				r.Spec.Target.Secret, r.Spec.Target.Type = target, string(tc.of)
			})
			data := map[string][]byte{}
			for i := 0; i < len(tc.data); i += 2 {
				data[tc.data[i]] = []byte(tc.data[i+1])
			}
			server := f.client.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: target}, Type: tc.of, Data: data,
			}, client.DryRunAll)
			if (server == nil) != (tc.wantText == "") {
				t.Fatalf("the API server says %v", server)
			}
			if tc.wantText == "" {
				f.written(true, r, "id1", tc.data...)
				return
			}
			refused := f.refused(v1alpha1.ReasonTargetInvalid, r, "id1", tc.data...)
			noCanary(t, refused)
			if !strings.Contains(refused.Message, tc.wantText) {
				t.Errorf("want %q named: %s", tc.wantText, refused.Message)
			}
		})
	}
}

func TestApply_WhatIsTooLargeIsRefusedWithBothSizes(t *testing.T) {
	f := newFixture(t)
	for kind, change := range map[string]func(*v1alpha1.DynamicConfigRender){
		"secret": func(*v1alpha1.DynamicConfigRender) {},
		"configmap": func(r *v1alpha1.DynamicConfigRender) {
			r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "target"
		},
	} {
		t.Run(kind, func(t *testing.T) {
			f := &fixture{T: t, namespace: f.namespace, client: f.client, applier: f.applier}
			r := f.render(kind, change)
			f.written(true, r, "fits", "a", strings.Repeat("x", corev1.MaxSecretSize))
			refused := f.refused(v1alpha1.ReasonDocumentTooLarge, r, "large", "a", strings.Repeat("x", corev1.MaxSecretSize), "b", "y")
			for _, number := range []int{corev1.MaxSecretSize, corev1.MaxSecretSize + 1} {
				if !strings.Contains(refused.Message, fmt.Sprint(number)) {
					t.Errorf("want %d in %q", number, refused.Message)
				}
			}
			if got := f.intact(r); got != "fits" {
				t.Errorf("the last good content must stay, got %q", got)
			}
		})
	}
}

// The managed fields of many small keys outgrow the storage long before the values do.
func TestApply_MoreKeysThanTheStorageTakesAreTooLarge(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	data := make(map[string][]byte)
	for i := range 45_000 {
		data[fmt.Sprintf("key-%08d", i)] = []byte("v")
	}
	_, err := f.applier.Apply(t.Context(), apply.Desired{Render: r, ContentID: []byte("many"), Data: data})
	if apply.ReasonOf(err) != v1alpha1.ReasonDocumentTooLarge || !strings.Contains(err.Error(), "45000 bytes in 45000 keys") {
		t.Errorf("got %v: %.300v", err, errors.Unwrap(err))
	}
}

func TestApply_TheLongestNamesWork(t *testing.T) {
	f := newFixture(t)
	long := string(bytes.Repeat([]byte("a"), 253))
	r := f.render(long, func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Secret = long })
	key := strings.Repeat("k", 253)
	f.written(true, r, "id1", key, "1")
	f.written(false, r, "id1", key, "1")
	if got := f.intact(r); got != "id1" {
		t.Errorf("want the content intact, got %q", got)
	}
}

// Whoever copies an object copies its labels. Nobody wrote the copy for the Render.
func TestRelease_LeavesACopyOfATargetAlone(t *testing.T) {
	f := newFixture(t)
	r := f.render("pg")
	f.written(true, r, "id1", "a", "1")
	original := f.secret("target")
	duplicate := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: "copy", Labels: original.Labels, Annotations: original.Annotations, OwnerReferences: original.OwnerReferences,
		},
		Data: original.Data,
	}
	f.must(f.client.Create(t.Context(), duplicate, client.FieldOwner("kubectl-create")))
	f.must(f.applier.Release(t.Context(), r, "Secret", "copy"))
	if after := f.secret("copy"); after.ResourceVersion != duplicate.ResourceVersion {
		t.Error("a copy was touched")
	}
}
