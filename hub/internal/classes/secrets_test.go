package classes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestResolver_Source_WhatIsMissing(t *testing.T) {
	full := map[string]string{"token": "canary-token"}
	ca := map[string]string{"ca.crt": "canary-ca"}
	for name, tc := range map[string]struct {
		token, ca map[string]string
		want      string
	}{
		"no credential Secret":                   {nil, ca, v1alpha1.ReasonCredentialNotFound},
		"a credential Secret without the key":    {map[string]string{"password": "canary-token"}, ca, v1alpha1.ReasonCredentialNotFound},
		"a credential that is empty":             {map[string]string{"token": ""}, ca, v1alpha1.ReasonCredentialNotFound},
		"no CA Secret":                           {full, nil, v1alpha1.ReasonStoreTLSFailed},
		"a CA Secret without the key":            {full, map[string]string{"tls.crt": "canary-ca"}, v1alpha1.ReasonStoreTLSFailed},
		"both missing is the credential's first": {nil, nil, v1alpha1.ReasonCredentialNotFound},
		"nothing":                                {full, ca, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.class()
			if tc.token != nil {
				r.secret("token", tc.token)
			}
			if tc.ca != nil {
				r.secret("ca", tc.ca)
			}
			_, err := r.resolver.Source(t.Context(), r.find())
			if got := store.ReasonOf(err); got != tc.want {
				t.Fatalf("reason %q, want %q (%v)", got, tc.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

// certified has a class show a certificate.
func (r *rig) certified() *v1alpha1.DynamicConfigClass {
	r.t.Helper()
	class := r.class()
	class.Spec.TLS.ClientCertSecret = &v1alpha1.LocalCertificateReference{Name: "client"}
	r.update(class)
	return class
}

// tls makes a Secret of type kubernetes.io/tls; the API server wants both keys there.
func (r *rig) tls(cert, key string) *corev1.Secret {
	r.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "client"},
		Type:       corev1.SecretTypeTLS, StringData: map[string]string{"tls.crt": cert, "tls.key": key},
	}
	r.create(s)
	return s
}

func TestResolver_Source_AClientCertificateThatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(*rig)
		key  string
	}{
		"no Secret":                {func(*rig) {}, "tls.crt"},
		"an empty certificate":     {func(r *rig) { r.tls("", "canary-key") }, "tls.crt"},
		"an empty key":             {func(r *rig) { r.tls("canary-cert", "") }, "tls.key"},
		"a Secret of another kind": {func(r *rig) { r.secret("client", map[string]string{"tls.crt": "canary-cert", "key": "canary-key"}) }, "tls.key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.certified()
			r.secret("token", map[string]string{"token": "canary-token"})
			r.secret("ca", map[string]string{"ca.crt": "canary-ca"})
			tc.make(r)
			_, err := r.resolver.Source(t.Context(), r.find())
			if got := store.ReasonOf(err); got != v1alpha1.ReasonCredentialNotFound {
				t.Fatalf("reason %q (%v)", got, err)
			}
			missing, ok := errors.AsType[*classes.MissingError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if want := "secret " + r.namespace + "/client, or its key " + tc.key + ", does not exist"; missing.ForOwner() != want {
				t.Errorf("the owner is told %q, want %q", missing.ForOwner(), want)
			}
			if strings.Contains(err.Error()+missing.ForOwner(), "canary") || strings.Contains(err.Error(), "client") {
				t.Errorf("a tenant is told %q", err)
			}
		})
	}
}

func TestResolver_Source_OpensWithTheCredential(t *testing.T) {
	r := newRig(t)
	r.certified()
	r.secret("token", map[string]string{"token": " s.token-of-the-class\n"})
	r.secret("ca", map[string]string{"ca.crt": "pem"})
	r.tls("cert", "key")
	source := r.source()
	if len(r.opened) > 0 {
		t.Error("the store was opened before anybody fetched")
	}
	if _, err := source.Open(); err != nil {
		t.Fatal(err)
	}
	want := classes.Credential{Token: "s.token-of-the-class", CAPEM: []byte("pem"), CertPEM: []byte("cert"), KeyPEM: []byte("key")}
	if diff := cmp.Diff(want, r.opened[0]); diff != "" {
		t.Errorf("opened with (-want +got):\n%s", diff)
	}
	if strings.Contains(source.ID+source.Revision, "token-of-the-class") {
		t.Error("the credential is in the name of its source")
	}
}

func TestResolver_Source_Revision(t *testing.T) {
	r := newRig(t)
	class := r.certified()
	token := r.secret("token", map[string]string{"token": "a"})
	ca := r.secret("ca", map[string]string{"ca.crt": "a"})
	client := r.tls("a", "a")
	last := r.source().Revision
	for _, step := range []struct {
		name    string
		do      func()
		changes bool
	}{
		{"nothing happens", func() {}, false},
		{"a label of the Secret changes", func() { token.Labels = map[string]string{"a": "b"}; r.update(token) }, false},
		{"another key of the Secret changes", func() { token.Data["other"] = []byte("x"); r.update(token) }, false},
		{"the token is rotated", func() { token.Data["token"] = []byte("b"); r.update(token) }, true},
		{"the CA is rotated", func() { ca.Data["ca.crt"] = []byte("b"); r.update(ca) }, true},
		{"the client certificate is renewed", func() { client.Data["tls.crt"] = []byte("b"); r.update(client) }, true},
		{"the client certificate's key is another", func() { client.Data["tls.key"] = []byte("b"); r.update(client) }, true},
		{"the CA beside the client certificate changes", func() { client.Data["ca.crt"] = []byte("b"); r.update(client) }, false},
		{"a label of the class changes", func() { class.Labels = map[string]string{"a": "b"}; r.update(class) }, false},
		{"the class is edited", func() { class.Spec.Keys = []string{"a"}; r.update(class) }, true},
		{"the class is another of the same name", func() {
			if err := hub.Client.Delete(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			r.certified()
		}, true},
	} {
		step.do()
		if now := r.source().Revision; (now != last) != step.changes {
			t.Errorf("when %s the revision changes: %v, want %v", step.name, now != last, step.changes)
		} else {
			last = now
		}
	}
}

func TestSecrets_ReadLiveOnlyWhenTheVersionMoved(t *testing.T) {
	r := newRig(t)
	secret := r.secret("token", map[string]string{"token": "a"})
	read := func(secrets *classes.Secrets, want string, reads int) {
		t.Helper()
		data, err := secrets.Data(t.Context(), r.namespace, "token")
		if err != nil || string(data["token"]) != want {
			t.Fatalf("got %q, %v; want %q", data["token"], err, want)
		}
		if r.live.reads != reads {
			t.Fatalf("%d live reads, want %d", r.live.reads, reads)
		}
	}
	secrets := classes.NewSecrets(hub.Client, r.live)
	read(secrets, "a", 1)
	read(secrets, "a", 1)
	secret.Data["token"] = []byte("b")
	r.update(secret)
	read(secrets, "b", 2)
	read(secrets, "b", 2)
	if err := hub.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	read(secrets, "", 2)
	r.secret("token", map[string]string{"token": "c"})
	read(secrets, "c", 3)
}

func TestSecrets_GoneBetweenTheCacheAndTheRead(t *testing.T) {
	r := newRig(t)
	r.secret("token", map[string]string{"token": "a"})
	secrets := classes.NewSecrets(hub.Client, absent{})
	if data, err := secrets.Data(t.Context(), r.namespace, "token"); err != nil || data != nil {
		t.Errorf("data %v, error %v", data, err)
	}
}

// absent has nothing.
type absent struct{ client.Reader }

func (absent) Get(ctx context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return hub.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "no-such-secret"}, o)
}

// failing is an API server that does not answer.
type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("connection refused")
}

func TestResolver_AnAPIServerThatFailsIsNoVerdict(t *testing.T) {
	r := newRig(t)
	r.class()
	r.secret("token", map[string]string{"token": "a"})
	class := r.find()
	for name, secrets := range map[string]*classes.Secrets{
		"the cache": classes.NewSecrets(failing{}, hub.Client), "the live read": classes.NewSecrets(hub.Client, failing{}),
	} {
		r.resolver.Secrets = secrets
		if _, err := r.resolver.Source(t.Context(), class); err == nil || store.ReasonOf(err) != "" {
			t.Errorf("%s: error %v", name, err)
		}
	}
	r.resolver.Objects = failing{}
	for _, kind := range []v1alpha1.ClassKind{v1alpha1.ClassKindCluster, v1alpha1.ClassKindNamespaced} {
		if _, err := r.resolver.Find(t.Context(), classes.Ref{Kind: kind, Name: "c"}); err == nil || errors.Is(err, classes.ErrNotFound) {
			t.Errorf("%s: error %v", kind, err)
		}
	}
}
