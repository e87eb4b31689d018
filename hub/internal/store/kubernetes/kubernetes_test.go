package kubernetes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/kubernetes"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/internal/testenv"
)

const namespace = "documents"

func TestStore_OnAnAPIServer(t *testing.T) {
	config := testenv.ControlPlane(t, testenv.WithoutControllers).Config
	admin := newClient(t, config)
	createNamespace(t, admin, namespace)
	createNamespace(t, admin, "other")

	t.Run("ConfigMaps pass the suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			t.Helper()
			return configMapHarness(t, admin)
		})
	})
	t.Run("Secrets pass the suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			t.Helper()
			return secretHarness(t, admin)
		})
	})
	t.Run("an object is read whole, bytes and all", func(t *testing.T) { readsWhole(t, admin) })
	t.Run("other namespaces are out of reach", func(t *testing.T) { staysInNamespace(t, admin) })
	t.Run("a key of another form is refused", func(t *testing.T) { refusesKeys(t, admin) })
	t.Run("a hub without the permission says so, until it has it", func(t *testing.T) { needsPermission(t, admin, config) })
	t.Run("a closed store leaves no goroutine", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		s := open(t, admin)
		_, _ = s.Fetch(t.Context(), "secrets/none")
		_, _ = s.Fetch(t.Context(), "configmaps/none")
		check(t, s.Close())
		goleak.VerifyNone(t, before)
	})
}

func open(t *testing.T, c client.Interface) *kubernetes.Store {
	t.Helper()
	s, err := kubernetes.New(c, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func createNamespace(t *testing.T, c client.Interface, name string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// check fails the test on an error; an object that is not there can be deleted.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func configMapHarness(t *testing.T, admin client.Interface) storetest.Harness {
	t.Helper()
	maps := admin.CoreV1().ConfigMaps(namespace)
	return storetest.Harness{
		Reader: open(t, admin),
		Key:    func(name string) policy.Key { return policy.Key("configmaps/" + name + "/app.yaml") },
		Put: func(t *testing.T, key policy.Key, text string) {
			t.Helper()
			at := key.Segments()
			object := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: at[1]},
				Data:       map[string]string{at[2]: text, "untouched": "x"},
			}
			_, err := maps.Update(t.Context(), object, metav1.UpdateOptions{})
			if apierrors.IsNotFound(err) {
				_, err = maps.Create(t.Context(), object, metav1.CreateOptions{})
			}
			check(t, err)
		},
		Delete: func(t *testing.T, key policy.Key) {
			t.Helper()
			check(t, maps.Delete(t.Context(), key.Segments()[1], metav1.DeleteOptions{}))
		},
		Awkward: []policy.Key{"configmaps/a.b.c/.data.yaml", "configmaps/0/_", "configmaps/x/A-b_c.JSON"},
	}
}

func secretHarness(t *testing.T, admin client.Interface) storetest.Harness {
	t.Helper()
	secrets := admin.CoreV1().Secrets(namespace)
	return storetest.Harness{
		Reader: open(t, admin),
		Secret: true,
		Key:    func(name string) policy.Key { return policy.Key("secrets/" + name + "/app.yaml") },
		Put: func(t *testing.T, key policy.Key, text string) {
			t.Helper()
			at := key.Segments()
			object := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: at[1]},
				Data:       map[string][]byte{at[2]: []byte(text)},
			}
			_, err := secrets.Update(t.Context(), object, metav1.UpdateOptions{})
			if apierrors.IsNotFound(err) {
				_, err = secrets.Create(t.Context(), object, metav1.CreateOptions{})
			}
			check(t, err)
		},
		// The last data key goes; the object stays.
		Delete: func(t *testing.T, key policy.Key) {
			t.Helper()
			object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: key.Segments()[1]}}
			_, err := secrets.Update(t.Context(), object, metav1.UpdateOptions{})
			check(t, err)
		},
		Awkward: []policy.Key{"secrets/a.b/tls.crt"},
	}
}

// eventually fetches until the document is there.
func eventually(t *testing.T, s store.Reader, key policy.Key) *store.Document {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), storetest.Patience)
	defer cancel()
	doc, err := s.(store.Watcher).Watch(ctx, key, "")
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return doc
}

func readsWhole(t *testing.T, admin client.Interface) {
	t.Helper()
	binary := []byte{0, 0xff, 0xfe, '\n'}
	_, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "whole"},
		Data:       map[string]string{"a": "text", "empty": ""},
		BinaryData: map[string][]byte{"b": binary},
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "whole"},
		Data:       map[string][]byte{"b": binary},
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hollow"},
	}, metav1.CreateOptions{})
	check(t, err)

	s := open(t, admin)
	defer s.Close()
	cases := map[policy.Key]*store.Document{
		"configmaps/whole":   {Values: map[string][]byte{"a": []byte("text"), "empty": {}, "b": binary}},
		"configmaps/whole/b": {Text: binary},
		"secrets/whole":      {Values: map[string][]byte{"b": binary}, Secret: true},
		"secrets/whole/b":    {Text: binary, Secret: true},
		"secrets/hollow":     {Values: map[string][]byte{}, Secret: true},
	}
	for key, want := range cases {
		got := eventually(t, s, key)
		want.Version = got.Version
		if diff := cmp.Diff(want, got); diff != "" || got.Version == "" {
			t.Errorf("%s, version %q (-want +got):\n%s", key, got.Version, diff)
		}
	}
}

func staysInNamespace(t *testing.T, admin client.Interface) {
	t.Helper()
	_, err := admin.CoreV1().Secrets("other").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"},
	}, metav1.CreateOptions{})
	check(t, err)
	s := open(t, admin)
	defer s.Close()
	if _, err := s.Fetch(t.Context(), "secrets/elsewhere"); store.ReasonOf(err) != v1alpha1.ReasonDocumentNotFound {
		t.Errorf("got %v", err)
	}
}

func refusesKeys(t *testing.T, admin client.Interface) {
	t.Helper()
	s := open(t, admin)
	defer s.Close()
	for _, key := range []policy.Key{
		"configmaps", "secrets", "pods/a", "ConfigMaps/a", "configmaps/a/b/c", "other/secrets/elsewhere", "a",
	} {
		_, err := s.Fetch(t.Context(), key)
		_, watchErr := s.Watch(t.Context(), key, "")
		if store.ReasonOf(err) != v1alpha1.ReasonKeyInvalid || store.ReasonOf(watchErr) != v1alpha1.ReasonKeyInvalid {
			t.Errorf("%s: fetch %v, watch %v; want %s", key, err, watchErr, v1alpha1.ReasonKeyInvalid)
		}
	}
}

// needsPermission takes the way of a platform team that forgets the RBAC.
func needsPermission(t *testing.T, admin client.Interface, config *rest.Config) {
	t.Helper()
	hub := rest.CopyConfig(config)
	hub.Impersonate = rest.ImpersonationConfig{UserName: "hub"}
	s := open(t, newClient(t, hub))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Fetch(ctx, "configmaps/whole/a"); store.ReasonOf(err) != v1alpha1.ReasonKeyForbidden {
		t.Fatalf("got %v, want %s", err, v1alpha1.ReasonKeyForbidden)
	}
	if _, err := s.Watch(ctx, "configmaps/whole/a", ""); store.ReasonOf(err) != v1alpha1.ReasonKeyForbidden {
		t.Fatalf("got %v, want %s", err, v1alpha1.ReasonKeyForbidden)
	}
	grant(t, admin)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		doc, err := s.Fetch(ctx, "configmaps/whole/a")
		if err == nil && string(doc.Text) == "text" {
			break
		}
		if store.ReasonOf(err) != v1alpha1.ReasonKeyForbidden {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(err.Error(), "hub\"") {
			t.Fatalf("error %q is in the API server's words", err)
		}
		<-tick.C
	}
	if _, err := s.Fetch(ctx, "secrets/whole"); store.ReasonOf(err) != v1alpha1.ReasonKeyForbidden {
		t.Errorf("secrets: got %v, want %s", err, v1alpha1.ReasonKeyForbidden)
	}
}

// grant lets the hub read ConfigMaps and nothing else.
func grant(t *testing.T, admin client.Interface) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "hub"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}
	_, err := admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
	check(t, err)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "hub"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "hub"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "hub"}},
	}
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	check(t, err)
}

func TestNew_NeedsANamespace(t *testing.T) {
	t.Parallel()
	if _, err := kubernetes.New(nil, ""); store.ReasonOf(err) != v1alpha1.ReasonClassInvalid {
		t.Errorf("got %v", err)
	}
}
