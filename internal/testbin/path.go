package testbin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrMissing says that a binary has not been built. Its text names the command
// that builds it.
var ErrMissing = errors.New("not built: run make testbin")

// Path returns where the binary of this name lies. The error is ErrMissing when
// it is not there yet.
func Path(binary string) (string, error) {
	for _, s := range servers {
		for _, b := range s.Binaries {
			if b.Name == binary {
				return path(s, b)
			}
		}
	}
	return "", fmt.Errorf("no server has a binary %q", binary)
}

// path is Path for a binary that is known.
func path(s Server, b Binary) (string, error) {
	if file, ok := asset(s, b); ok {
		return file, nil
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(serverDir(cache, s), b.Name)
	if !executable(file) {
		return "", fmt.Errorf("%s %s: %w", b.Name, s.Version, ErrMissing)
	}
	return file, nil
}

// CacheDir returns the folder that holds a folder for each server. It does not
// create it.
func CacheDir() (string, error) {
	base := os.Getenv("DYNAMIC_CONFIG_TESTBIN")
	if base == "" {
		base = os.Getenv("XDG_CACHE_HOME")
	}
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache folder: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "dynamic-config-fleet", "testbin"), nil
}

// serverDir is the folder of a server's binaries below cache.
func serverDir(cache string, s Server) string {
	return filepath.Join(cache, s.Name+"-"+s.Version)
}

// asset finds a binary in KUBEBUILDER_ASSETS.
func asset(s Server, b Binary) (string, bool) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" || !s.Assets {
		return "", false
	}
	file := filepath.Join(dir, b.Name)
	return file, executable(file)
}

// executable says whether file is a regular file that may be run.
func executable(file string) bool {
	info, err := os.Stat(file) //nolint:gosec // G703: whoever runs the tests says where the binaries are
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
