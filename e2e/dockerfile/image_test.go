//go:build kind

package dockerfile_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// image is what an engine keeps of an image.
type image struct {
	Architecture string
	Config       struct {
		User            string
		Entrypoint, Cmd []string
		Labels          map[string]string
	}
	// files are what its layers hold, apart from folders.
	files map[string][]byte
}

// inspect reads an image as docker save writes it.
func inspect(t *testing.T, tag string) image {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	run(t, "docker", "save", "-o", archive, tag)
	text, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	saved := untar(t, text)
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(saved["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("%d images, %v", len(manifest), err)
	}
	built := image{files: map[string][]byte{}}
	if err := json.Unmarshal(saved[manifest[0].Config], &built); err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest[0].Layers {
		maps.Copy(built.files, untar(t, bytes.NewReader(saved[layer])))
	}
	return built
}

// untar reads an archive, without its folders.
func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if files[path.Clean(header.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
