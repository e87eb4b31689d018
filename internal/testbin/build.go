package testbin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// heartbeat is how often a build that is under way says so: a cold build of
// Kubernetes takes ten minutes on two cores and prints nothing by itself.
const heartbeat = 20 * time.Second

// Builder builds binaries that are missing or were built from something else.
type Builder struct {
	// Modules is the folder that holds a module for each server:
	// tools/testbin.
	Modules string
	// Cache is where the binaries go: CacheDir().
	Cache string
	// Out receives progress, a line at a time.
	Out io.Writer
}

// Build makes every binary of these servers present, and says of each whether
// it was there or how many seconds it took. It stops at the first that fails;
// the error then holds what the Go tool said.
func (b Builder) Build(ctx context.Context, wanted []Server) error {
	for _, s := range wanted {
		for _, binary := range s.Binaries {
			if err := b.ensure(ctx, s, binary); err != nil {
				return fmt.Errorf("build %s %s: %w", binary.Name, s.Version, err)
			}
		}
	}
	return nil
}

// ensure builds one binary unless it is there and its stamp fits.
func (b Builder) ensure(ctx context.Context, s Server, binary Binary) error {
	if file, ok := asset(s, binary); ok {
		b.say("%s: from KUBEBUILDER_ASSETS, %s", binary.Name, file)
		return nil
	}
	module := filepath.Join(b.Modules, s.Name)
	args := buildArgs(s)
	want, err := stamp(module, append(args, binary.Package))
	if err != nil {
		return err
	}
	file := filepath.Join(serverDir(b.Cache, s), binary.Name)
	if have, err := os.ReadFile(stampFile(file)); err == nil && string(have) == want && executable(file) {
		b.say("%s %s: present", binary.Name, s.Version)
		return nil
	}
	begin := time.Now()
	b.say("%s %s: building", binary.Name, s.Version)
	if err := b.compile(ctx, module, args, binary, file); err != nil {
		return err
	}
	if err := replace(stampFile(file), []byte(want)); err != nil {
		return err
	}
	b.say("%s %s: built in %.0f s", binary.Name, s.Version, time.Since(begin).Seconds())
	return nil
}

// buildArgs are the arguments of go build up to the output. They are the same
// for everyone, so that everyone shares the Go tool's own cache.
func buildArgs(s Server) []string {
	ldflags := strings.TrimSpace("-s -w " + s.LDFlags)
	return []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags}
}

// compile runs the Go tool in the module's folder and moves the result to file.
func (b Builder) compile(ctx context.Context, module string, args []string, binary Binary, file string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	// Beside the result: a rename must not cross file systems.
	scratch, err := os.MkdirTemp(filepath.Dir(file), ".build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	built := filepath.Join(scratch, binary.Name)

	var said strings.Builder
	//nolint:gosec // G204: the arguments are the table of servers
	cmd := exec.CommandContext(ctx, "go", append(slices.Clone(args), "-o", built, binary.Package)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := b.runWithHeartbeat(cmd, binary.Name); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(said.String()))
	}
	return os.Rename(built, file)
}

// runWithHeartbeat runs cmd and says from time to time that it still runs.
func (b Builder) runWithHeartbeat(cmd *exec.Cmd, name string) error {
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // ends with the command, which ctx bounds
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			b.say("%s: still building, %.0f s", name, time.Since(begin).Seconds())
		}
	}
}

// say prints one line of progress.
func (b Builder) say(format string, args ...any) {
	// Progress that cannot be shown is no reason to stop a build.
	_, _ = fmt.Fprintf(b.Out, "testbin: "+format+"\n", args...)
}

// stamp is the hash of everything of ours that a binary is built from: the
// module's files and the arguments.
func stamp(module string, args []string) (string, error) {
	h := sha256.New()
	sources, err := filepath.Glob(filepath.Join(module, "*.go"))
	if err != nil {
		return "", err
	}
	files := append([]string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}, sources...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read what the server is built from: %w", err)
		}
		_, _ = fmt.Fprintf(h, "%s %d\n", filepath.Base(file), len(text)) // a hash never fails
		_, _ = h.Write(text)
	}
	_, _ = fmt.Fprintf(h, "%q", args)
	return hex.EncodeToString(h.Sum(nil)) + "\n", nil
}

// stampFile is where the stamp of a binary lies.
func stampFile(binary string) string { return binary + ".stamp" }

// replace writes a file in one step.
func replace(file string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".stamp-")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return os.Rename(temp.Name(), file)
}
