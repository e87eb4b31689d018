package testbin_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dynamic-config.rs/fleet/internal/testbin"
)

const modules = "../../tools/testbin"

func TestServers_VersionsAreThoseOfTheModules(t *testing.T) {
	all, err := testbin.Servers()
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"etcd":       "go.etcd.io/etcd/server/v3",
		"kubernetes": "k8s.io/kubernetes",
		"consul":     "github.com/hashicorp/consul",
		"vault":      "github.com/hashicorp/vault",
	}
	if len(all) != len(paths) {
		t.Fatalf("%d servers, want %d", len(all), len(paths))
	}
	for _, s := range all {
		text, err := os.ReadFile(filepath.Join(modules, s.Name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if want := paths[s.Name] + " " + s.Version + "\n"; !strings.Contains(string(text), want) {
			t.Errorf("%s: go.mod does not require %q", s.Name, want)
		}
	}
}

func TestServers_ByName(t *testing.T) {
	chosen, err := testbin.Servers("kubernetes", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	if len(chosen) != 2 || chosen[0].Name != "etcd" || chosen[1].Name != "kubernetes" {
		t.Errorf("chosen: %v", chosen)
	}
	if _, err := testbin.Servers("postgres"); err == nil || !strings.Contains(err.Error(), "etcd, kubernetes, consul, vault") {
		t.Errorf("an unknown name must be refused with the known ones: %v", err)
	}
}

func TestPath(t *testing.T) {
	assets := t.TempDir()
	fake := filepath.Join(assets, "kube-apiserver")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	consul := filepath.Join(assets, "consul")
	if err := os.WriteFile(consul, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		assets, binary, want, mustSay string
	}{
		"a binary that is not built names the command that builds it": {
			binary: "etcd", mustSay: "make testbin",
		},
		"an unknown binary is an error": {
			binary: "postgres", mustSay: `no server has a binary "postgres"`,
		},
		"KUBEBUILDER_ASSETS provides what lies there": {
			assets: assets, binary: "kube-apiserver", want: fake,
		},
		"what KUBEBUILDER_ASSETS lacks is ours to build": {
			assets: assets, binary: "etcd", mustSay: "make testbin",
		},
		"KUBEBUILDER_ASSETS never provides a store": {
			assets: assets, binary: "consul", mustSay: "make testbin",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DYNAMIC_CONFIG_TESTBIN", t.TempDir())
			t.Setenv("KUBEBUILDER_ASSETS", c.assets)
			got, err := testbin.Path(c.binary)
			if c.mustSay != "" {
				if err == nil || !strings.Contains(err.Error(), c.mustSay) {
					t.Fatalf("error %v, must say %q", err, c.mustSay)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for name, c := range map[string]struct{ own, xdg, want string }{
		"the project's own variable wins": {"/a", "/b", "/a"},
		"then the user's cache folder":    {"", "/b", "/b"},
		"then the home folder":            {"", "", "/home/u/.cache"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DYNAMIC_CONFIG_TESTBIN", c.own)
			t.Setenv("XDG_CACHE_HOME", c.xdg)
			got, err := testbin.CacheDir()
			if want := c.want + "/dynamic-config-fleet/testbin"; err != nil || got != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}

// TestBuilder_TwoAtOnceThenPresentThenChanged builds the smallest server for
// real. The Go tool's cache makes that a link where it was built before.
func TestBuilder_TwoAtOnceThenPresentThenChanged(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	etcd, err := testbin.Servers("etcd")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	build := func(modules string) string {
		t.Helper()
		var out bytes.Buffer
		if err := (testbin.Builder{Modules: modules, Cache: cache, Out: &out}).Build(t.Context(), etcd); err != nil {
			t.Error(err)
		}
		return out.String()
	}

	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if said := build(modules); !strings.Contains(said, "etcd v3.6.8: built in ") {
				t.Errorf("said %q", said)
			}
		})
	}
	both.Wait()

	dir := filepath.Join(cache, "etcd-v3.6.8")
	version, err := exec.CommandContext(t.Context(), filepath.Join(dir, "etcd"), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(version), "etcd Version: 3.6.8") {
		t.Errorf("%v: %s", err, version)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("scratch files left: %v", left)
	}
	if said := build(modules); said != "testbin: etcd v3.6.8: present\n" {
		t.Errorf("a second build said %q", said)
	}

	changed := t.TempDir()
	if err := os.CopyFS(changed, os.DirFS(modules)); err != nil {
		t.Fatal(err)
	}
	sums := filepath.Join(changed, "etcd", "go.sum")
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sums, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := build(changed); !strings.Contains(said, "built in") {
		t.Errorf("a build of changed sums said %q", said)
	}
}

func TestBuilder_AFailureHoldsWhatTheGoToolSaid(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	modules := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module broken\n\ngo 1.26\n",
		"go.sum":  "",
		"main.go": "package main\n\nfunc main() { undefined() }\n",
	} {
		file := filepath.Join(modules, "broken", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	broken := []testbin.Server{{
		Name: "broken", Version: "v0", Binaries: []testbin.Binary{{Name: "broken", Package: "."}},
	}}
	err := testbin.Builder{Modules: modules, Cache: t.TempDir(), Out: t.Output()}.Build(t.Context(), broken)
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("error %v", err)
	}
}
