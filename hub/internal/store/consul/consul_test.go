package consul_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, cfg consul.Config) *consul.Client {
	t.Helper()
	client, err := consul.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func put(t *testing.T, client *api.Client, key policy.Key, text string) {
	t.Helper()
	if _, err := client.KV().Put(&api.KVPair{Key: string(key), Value: []byte(text)}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestClient_OnConsul(t *testing.T) {
	server := testenv.Consul(t, testenv.WithACL)
	writer := writer(t, server)

	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			t.Helper()
			return storetest.Harness{
				Reader: open(t, consul.Config{Endpoint: server.Addr + "/", Token: server.Token}),
				Key:    func(name string) policy.Key { return policy.Key("app/" + strings.ToLower(t.Name()) + "/" + name) },
				Put: func(t *testing.T, key policy.Key, text string) {
					t.Helper()
					put(t, writer, key, text)
				},
				Delete: func(t *testing.T, key policy.Key) {
					t.Helper()
					if _, err := writer.KV().Delete(string(key), nil); err != nil {
						t.Fatal(err)
					}
				},
				Awkward: []policy.Key{"a b/ c", "café/数据", "a&b=c;d/+", "a:b@c", `quote"d`, "keys", "...", "a*/**", "{x}"},
			}
		})
	})
	t.Run("a token without the permission is told so", func(t *testing.T) {
		put(t, writer, "denied", "canary")
		token := newToken(t, writer, `key_prefix "granted/" { policy = "read" }`)
		client := open(t, consul.Config{Endpoint: server.Addr, Token: token})
		defer client.Close()
		wantReason(t, client, "denied", v1alpha1.ReasonKeyForbidden)
		wantReason(t, client, "granted/none", v1alpha1.ReasonDocumentNotFound)
	})
	t.Run("in a batch each key is told apart", func(t *testing.T) {
		token := newToken(t, writer, `key_prefix "mix/" { policy = "read" } key "mix/k03" { policy = "deny" }`)
		client := open(t, consul.Config{Endpoint: server.Addr, Token: token})
		defer client.Close()
		batch(t, client, writer)
	})
	t.Run("an unknown token is rejected", func(t *testing.T) {
		client := open(t, consul.Config{Endpoint: server.Addr, Token: "11111111-2222-3333-4444-555555555555"})
		defer client.Close()
		wantReason(t, client, "ready", v1alpha1.ReasonCredentialRejected)
	})
	t.Run("without a token the request is anonymous, whatever the environment holds", func(t *testing.T) {
		t.Setenv("CONSUL_HTTP_TOKEN", server.Token)
		client := open(t, consul.Config{Endpoint: server.Addr})
		defer client.Close()
		wantReason(t, client, "ready", v1alpha1.ReasonKeyForbidden)
	})
}

// batch follows forty keys of which k03 may not be read and k05 is not there, through
// a change, a deletion and an appearance.
func batch(t *testing.T, client *consul.Client, writer *api.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), storetest.Patience)
	defer cancel()
	type answer struct {
		key policy.Key
		is  string // text, or the reason of an error
	}
	answers := make(chan answer)
	ask := func(key policy.Key, call func() (*store.Document, error)) {
		doc, err := call()
		is := store.ReasonOf(err)
		if err == nil {
			is = string(doc.Text)
		}
		answers <- answer{key, is}
	}
	versions := map[policy.Key]string{}
	want := map[policy.Key]string{}
	for n := range 40 {
		key := policy.Key(fmt.Sprintf("mix/k%02d", n))
		want[key] = "one"
		if n != 5 {
			put(t, writer, key, "one")
		}
	}
	want["mix/k03"], want["mix/k05"] = v1alpha1.ReasonKeyForbidden, v1alpha1.ReasonDocumentNotFound
	for key := range want {
		go ask(key, func() (*store.Document, error) { return client.Fetch(ctx, key) })
	}
	for range want {
		if got := <-answers; got.is != want[got.key] {
			t.Errorf("%s is %s, want %s", got.key, got.is, want[got.key])
		}
	}

	pairs, _, err := writer.KV().List("mix/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range pairs {
		versions[policy.Key(pair.Key)] = strconv.FormatUint(pair.ModifyIndex, 10)
	}
	delete(want, "mix/k03")
	for key := range want {
		go ask(key, func() (*store.Document, error) { return client.Watch(ctx, key, versions[key]) })
	}
	put(t, writer, "mix/k05", "new")
	if _, err := writer.KV().Delete("mix/k06", nil); err != nil {
		t.Fatal(err)
	}
	put(t, writer, "mix/k07", "two")
	moved := map[policy.Key]string{"mix/k05": "new", "mix/k06": v1alpha1.ReasonDocumentNotFound, "mix/k07": "two"}
	for range moved {
		if got := <-answers; got.is != moved[got.key] {
			t.Errorf("%s is %s, want %s", got.key, got.is, moved[got.key])
		}
	}
	cancel()
	for range len(want) - len(moved) {
		if got := <-answers; got.is != "" {
			t.Errorf("%s is %s though it never moved", got.key, got.is)
		}
	}
}

// wantReason fetches and wants that failure, without a word of the document.
func wantReason(t *testing.T, r store.Reader, key policy.Key, reason string) {
	t.Helper()
	doc, err := r.Fetch(t.Context(), key)
	if doc != nil || store.ReasonOf(err) != reason {
		t.Errorf("document %t, error %v with reason %q; want %s", doc != nil, err, store.ReasonOf(err), reason)
	}
	if err != nil && strings.Contains(err.Error(), "canary") {
		t.Errorf("error %q holds what it must not", err)
	}
}

func newToken(t *testing.T, client *api.Client, rules string) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())
	rule, _, err := client.ACL().PolicyCreate(&api.ACLPolicy{Name: name[max(0, len(name)-128):], Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: rule.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}
