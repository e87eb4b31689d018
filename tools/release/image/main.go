// Command image makes one container image of static binaries, for several
// platforms, as an OCI layout and as a tar of it. It needs no engine and no
// registry, and the same input makes the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// request is one image.
type request struct {
	// name of the image with its tag, as a container runtime is to call it.
	name string
	// command is the name of the binary and of the file it becomes.
	command string
	// binaries is the folder with linux-<architecture>/<command>.
	binaries string
	// out is the folder that gets <command>/ and <command>.tar.
	out                     string
	version, commit, source string
	date                    time.Time
	architectures           []string
	// args of the image, beside its entry point.
	args []string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	var r request
	var date, architectures string
	flag.StringVar(&r.name, "name", "", "name of the image, with its tag")
	flag.StringVar(&r.command, "command", "", "name of the binary")
	flag.StringVar(&r.binaries, "binaries", "", "folder with linux-<architecture>/<command>")
	flag.StringVar(&r.out, "out", "", "folder to write <command>/ and <command>.tar to")
	flag.StringVar(&r.version, "version", "dev", "version")
	flag.StringVar(&r.commit, "commit", "unknown", "commit")
	flag.StringVar(&r.source, "source", "https://dynamic-config.rs", "where the source is")
	flag.StringVar(&date, "date", "", "time of the commit, RFC 3339")
	flag.StringVar(&architectures, "architectures", "amd64 arm64", "architectures, in one argument")
	flag.Parse()
	r.architectures, r.args = strings.Fields(architectures), flag.Args()
	var err error
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return fmt.Errorf("date: %w", err)
	}
	digest, err := r.write()
	if err == nil {
		_, err = fmt.Printf("%s  %s\n", digest, r.name)
	}
	return err
}

// write writes the layout and its tar, and returns the digest of the image.
func (r request) write() (v1.Hash, error) {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range r.architectures {
		image, err := r.image(architecture)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s for %s: %w", r.command, architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	dir := filepath.Join(r.out, r.command)
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	_, tag, _ := strings.Cut(filepath.Base(r.name), ":")
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		// What OCI tools call it, and what containerd calls it.
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          r.name,
	})); err != nil {
		return v1.Hash{}, err
	}
	if err := writeTar(dir, dir+".tar", r.date); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// image is the image of one architecture: one layer, no shell, no user but a number.
func (r request) image(architecture string) (v1.Image, error) {
	binary, err := os.ReadFile(filepath.Join(r.binaries, "linux-"+architecture, r.command))
	if err != nil {
		return nil, err
	}
	layer, err := newLayer([]file{
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, data: publicRoots()},
		{name: r.command, mode: 0o555, data: binary},
	})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: architecture, Created: v1.Time{Time: r.date.UTC()},
		RootFS:  rootFS(image),
		History: []v1.History{{Created: v1.Time{Time: r.date.UTC()}, CreatedBy: "make images"}},
		Config: v1.Config{
			Entrypoint: []string{"/" + r.command}, Cmd: r.args, User: "65532:65532", WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":    "dynamic-config-" + r.command,
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.revision": r.commit,
				"org.opencontainers.image.created":  r.date.UTC().Format(time.RFC3339),
				"org.opencontainers.image.source":   r.source,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
}

// rootFS keeps what appending layers noted.
func rootFS(image v1.Image) v1.RootFS {
	config, err := image.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return config.RootFS
}
