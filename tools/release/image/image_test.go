package main

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// example asks for the image of a command whose binaries are some text.
func example(t *testing.T) request {
	t.Helper()
	dir := t.TempDir()
	for _, architecture := range []string{"amd64", "arm64"} {
		folder := filepath.Join(dir, "linux-"+architecture)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "hub"), []byte("for "+architecture), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return request{
		name: "registry.example:5000/fleet/hub:v1", command: "hub", binaries: dir, out: filepath.Join(dir, "images"),
		version: "v1", commit: "abc", date: time.Unix(1e9, 0), architectures: []string{"amd64", "arm64"},
	}
}

// written is the index that a request writes, read back.
func written(t *testing.T, r request) v1.ImageIndex {
	t.Helper()
	digest, err := r.write()
	if err != nil {
		t.Fatal(err)
	}
	path, err := layout.FromPath(filepath.Join(r.out, r.command))
	if err != nil {
		t.Fatal(err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestImage_IsOneForEachArchitecture(t *testing.T) {
	manifest, err := written(t, example(t)).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms %s", got)
	}
}

func TestImage_HoldsTheBinaryAndRootsAndRunsAsNobody(t *testing.T) {
	index := written(t, example(t))
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/hub" {
		t.Errorf("config %+v", config.Config)
	}
	if config.Config.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("labels %v", config.Config.Labels)
	}
	files := map[string]string{}
	reader := tar.NewReader(mutate.Extract(image))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
		if header.Mode&0o222 != 0 {
			t.Errorf("%s can be written", header.Name)
		}
	}
	if len(files) != 2 || files["hub"] != "for arm64" || strings.Count(files["etc/ssl/certs/ca-certificates.crt"], "BEGIN") < 100 {
		t.Errorf("%d files", len(files))
	}
}

func TestImage_IsTheSameWheneverAndWhereverItIsMade(t *testing.T) {
	a, b := example(t), example(t)
	for _, r := range []request{a, b} {
		if _, err := r.write(); err != nil {
			t.Fatal(err)
		}
	}
	first, err := os.ReadFile(filepath.Join(a.out, "hub.tar"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(b.out, "hub.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Error("two archives of the same input differ")
	}
}

func TestImage_AMissingArchitectureIsAnError(t *testing.T) {
	r := example(t)
	r.architectures = append(r.architectures, "riscv64")
	if _, err := r.write(); err == nil || !strings.Contains(err.Error(), "riscv64") {
		t.Errorf("error %v", err)
	}
}
