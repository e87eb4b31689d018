package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"time"

	"sigs.k8s.io/yaml"
)

// fileMode lets only the owner read what is unpacked.
const fileMode = 0o600

// Archive writes a bundle, tar and gzip, below one folder.
type Archive struct {
	gzip   *gzip.Writer
	tar    *tar.Writer
	folder string
	made   time.Time
}

// NewArchive starts a bundle of a time.
func NewArchive(w io.Writer, folder string, made time.Time) *Archive {
	compressed := gzip.NewWriter(w)
	return &Archive{gzip: compressed, tar: tar.NewWriter(compressed), folder: folder, made: made}
}

// YAML adds a file with data.
func (a *Archive) YAML(name string, data any) error {
	text, err := yaml.Marshal(data)
	if err != nil {
		return err
	}
	return a.Text(name, text)
}

// Text adds a file.
func (a *Archive) Text(name string, text []byte) error {
	header := &tar.Header{Name: path.Join(a.folder, name), Mode: fileMode, Size: int64(len(text)), ModTime: a.made}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := a.tar.Write(text)
	return err
}

// Close ends the bundle.
func (a *Archive) Close() error { return errors.Join(a.tar.Close(), a.gzip.Close()) }
