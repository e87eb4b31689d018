package vault_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

// escaped is a key's path below an engine, as it stands in a URL.
func escaped(key policy.Key, engine string) string {
	parts := strings.Split(strings.TrimPrefix(string(key), engine+"/"), "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

func TestClient_OnVault(t *testing.T) {
	server := start(t)
	server.mount(t, "team/a/kv")
	cases := map[string]struct {
		engine  string
		version int // of the engine
		stated  int // in the class
	}{
		"KV 2":                                  {"secret", 2, 0},
		"KV 2 that is stated":                   {"secret", 2, 2},
		"KV 2 at a path with slashes":           {"team/a/kv", 2, 0},
		"KV 1":                                  {"kv1", 1, 0},
		"KV 1 that is stated, and so not asked": {"kv1", 1, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Harness {
				t.Helper()
				return harness(t, server, tc.engine, tc.version, vault.Config{
					Endpoint: server.Addr + "/", Credential: server.Token, KVVersion: tc.stated,
				})
			})
		})
	}
}

// harness writes documents of one field, text, to an engine.
func harness(t *testing.T, server server, engine string, version int, cfg vault.Config) storetest.Harness {
	t.Helper()
	data, purge := engine+"/", engine+"/"
	if version == 2 {
		data, purge = engine+"/data/", engine+"/metadata/"
	}
	client, err := vault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	base := engine + "/" + url.PathEscape(t.Name()) + "/"
	var awkward []policy.Key
	for _, path := range []string{"a b/c", "café/数据", "a&b=c;d+", "a:b@c", `quote"d`, ".a", "a*/**", "{x}", "data/x", "metadata"} {
		awkward = append(awkward, policy.Key(engine+"/"+path))
	}
	return storetest.Harness{
		Reader: client,
		Key: func(name string) policy.Key {
			return policy.Key(strings.ReplaceAll(base, "%", "_") + name)
		},
		Put: func(t *testing.T, key policy.Key, text string) {
			t.Helper()
			body := map[string]any{"text": text}
			if version == 2 {
				body = map[string]any{"data": body}
			}
			server.call(t, http.MethodPost, data+escaped(key, engine), body, nil)
		},
		Holds: func(text string) string {
			return `{"text":"` + strings.NewReplacer("\n", `\n`, `"`, `\"`, "&", `\u0026`).Replace(text) + `"}`
		},
		Delete: func(t *testing.T, key policy.Key) {
			t.Helper()
			server.call(t, http.MethodDelete, purge+escaped(key, engine), nil, nil)
		},
		Awkward: awkward,
		Secret:  true,
	}
}

func TestFetch_TellsHowAVersionIsGone(t *testing.T) {
	server := start(t)
	client := open(t, vault.Config{Endpoint: server.Addr, Credential: server.Token})
	cases := map[string]struct {
		do     func(t *testing.T, path string)
		reason string // of fetch and poll; none when the document can be read
		text   string
	}{
		"never written": {func(*testing.T, string) {}, v1alpha1.ReasonDocumentNotFound, "the store holds nothing at this key"},
		"written": {func(t *testing.T, path string) {
			t.Helper()
			server.put(t, path, map[string]string{"a": "1"})
		}, "", ""},
		"its current version is deleted": {func(t *testing.T, path string) {
			t.Helper()
			server.put(t, path, map[string]string{"a": "1"})
			server.put(t, path, map[string]string{"a": "2"})
			server.call(t, http.MethodDelete, "secret/data/"+path, nil, nil)
		}, v1alpha1.ReasonDocumentDeleted, "the current version is deleted"},
		"its current version is destroyed": {func(t *testing.T, path string) {
			t.Helper()
			server.put(t, path, map[string]string{"a": "1"})
			server.call(t, http.MethodPost, "secret/destroy/"+path, map[string]any{"versions": []int{1}}, nil)
		}, v1alpha1.ReasonDocumentDeleted, "the current version is destroyed"},
		"an old version is deleted": {func(t *testing.T, path string) {
			t.Helper()
			server.put(t, path, map[string]string{"a": "0"})
			server.put(t, path, map[string]string{"a": "1"})
			server.call(t, http.MethodPost, "secret/delete/"+path, map[string]any{"versions": []int{1}}, nil)
		}, "", ""},
		"deleted and undeleted": {func(t *testing.T, path string) {
			t.Helper()
			server.put(t, path, map[string]string{"a": "1"})
			server.call(t, http.MethodDelete, "secret/data/"+path, nil, nil)
			server.call(t, http.MethodPost, "secret/undelete/"+path, map[string]any{"versions": []int{1}}, nil)
		}, "", ""},
		"to be deleted in an hour": {func(t *testing.T, path string) {
			t.Helper()
			server.call(t, http.MethodPost, "secret/metadata/"+path, map[string]string{"delete_version_after": "1h"}, nil)
			server.put(t, path, map[string]string{"a": "1"})
		}, "", ""},
		"metadata without a version": {func(t *testing.T, path string) {
			t.Helper()
			server.call(t, http.MethodPost, "secret/metadata/"+path, map[string]any{"max_versions": 3}, nil)
		}, v1alpha1.ReasonDocumentNotFound, ""},
	}
	server.put(t, "other", map[string]string{"a": "0"})
	other := wantText(t, client, "secret/other", `{"a":"0"}`)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := strings.ReplaceAll(name, " ", "-")
			tc.do(t, path)
			key := policy.Key("secret/" + path)
			if tc.reason == "" {
				doc := wantText(t, client, key, `{"a":"1"}`)
				if same, err := client.Poll(t.Context(), key, doc); same != doc {
					t.Errorf("poll: got another document or %v", err)
				}
				return
			}
			_, err := client.Fetch(t.Context(), key)
			wantFailure(t, err, tc.reason, "")
			if tc.text != "" && err.Error() != "fetch secret/"+path+": "+tc.text {
				t.Errorf("got %q", err)
			}
			// Polled, the metadata says the same.
			_, err = client.Poll(t.Context(), key, other)
			wantFailure(t, err, tc.reason, "")
		})
	}
}

// KV 2 itself keeps numbers as floating point, so the exact ones are from KV 1, and
// from a server of our own in the tests of faulty stores.
func TestFetch_KeepsNumbersAsVaultGivesThem(t *testing.T) {
	server := start(t)
	client := open(t, vault.Config{Endpoint: server.Addr, Credential: server.Token})
	document := map[string]any{"id": 9007199254740993, "price": jsonNumber("1.10"), "big": jsonNumber("18446744073709551615"), "word": "<é>"}
	server.call(t, http.MethodPost, "kv1/numbers", document, nil)
	doc := wantText(t, client, "kv1/numbers", `{"big":18446744073709551615,"id":9007199254740993,"price":1.10,"word":"\u003cé\u003e"}`)
	if doc.Format != v1alpha1.FormatJSON || !doc.Secret {
		t.Errorf("format %q, secret %t", doc.Format, doc.Secret)
	}
}

func TestFetch_AVersionOfKV1SaysNothingOfTheContent(t *testing.T) {
	server := start(t)
	server.call(t, http.MethodPost, "kv1/pin", map[string]string{"pin": "1234"}, nil)
	cfg := vault.Config{Endpoint: server.Addr, Credential: server.Token}
	one := wantText(t, open(t, cfg), "kv1/pin", `{"pin":"1234"}`)
	two := wantText(t, open(t, cfg), "kv1/pin", `{"pin":"1234"}`)
	if one.Version == two.Version {
		t.Error("two clients name a version alike: it can be searched")
	}
}
