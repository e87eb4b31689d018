//go:build kind

package dockerfile_test

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/internal/version"
)

// root is the folder of the repository.
const root = "../.."

const authorities = "etc/ssl/certs/ca-certificates.crt"

// documented is a command in the head of the Dockerfile, without the dot at its end.
var documented = regexp.MustCompile(`(?m)^#   (docker build .*--target (\w+) +-t (\S+)) \.$`)

// An engine makes of the Dockerfile, by the commands that stand in it, what make images
// makes without an engine.
func TestDockerfile_TheImagesAreThoseOfMakeImages(t *testing.T) {
	version.Version, version.Commit, version.Date = "e2e", git(t, "rev-parse", "HEAD"), git(t, "log", "-1", "--format=%cI")
	source := checkout(t)
	text, err := os.ReadFile(filepath.Join(source, "deploy", "images", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	commands := documented.FindAllStringSubmatch(string(text), -1)
	if len(commands) != 2 {
		t.Fatalf("the Dockerfile documents %d commands", len(commands))
	}
	for _, c := range commands {
		command, target, tag := c[1], c[2], c[3]
		t.Run(target, func(t *testing.T) {
			build(t, source, command, tag)
			built := inspect(t, tag)
			built.check(t, target, runtime.GOARCH)
			want, err := os.ReadFile(filepath.Join(root, "out", "linux-"+runtime.GOARCH, target))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(built.files[target], want) {
				t.Errorf("the binary is another than that of make images: is everything added to git, and Go's version %s in the image too?", runtime.Version())
			}
			if got := run(t, "docker", "run", "--rm", "--network=none", "--read-only", tag, "--version"); got != version.String() {
				t.Errorf("it says %q, want %q", got, version.String())
			}
		})
	}
	t.Run("for another machine", func(t *testing.T) {
		other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
		command, target, tag := commands[1][1], commands[1][2], commands[1][3]
		build(t, source, command+" --platform linux/"+other, tag)
		inspect(t, tag).check(t, target, other)
	})
}

// build runs a documented command with the stamps that make images had.
func build(t *testing.T, source, command, tag string) {
	t.Helper()
	for name, value := range map[string]string{"VERSION": version.Version, "COMMIT": version.Commit, "DATE": version.Date} {
		command += " --build-arg " + name + "=" + value
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", command+" .")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=1", "BUILDKIT_PROGRESS=plain")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", tag).Run() })
}

// check checks what holds for the image of a command: it holds one binary for a
// machine and the public authorities, no shell, and runs as nobody.
func (i image) check(t *testing.T, command, architecture string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(i.files)); !slices.Equal(got, []string{authorities, command}) {
		t.Fatalf("it holds %v", got)
	}
	if !slices.Equal(i.Config.Entrypoint, []string{"/" + command}) || len(i.Config.Cmd) > 0 || i.Config.User != "65532:65532" {
		t.Errorf("it runs %v %v as %q", i.Config.Entrypoint, i.Config.Cmd, i.Config.User)
	}
	if labels := i.Config.Labels; labels["org.opencontainers.image.version"] != version.Version || labels["org.opencontainers.image.revision"] != version.Commit {
		t.Errorf("it is labelled %v", labels)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(i.files[authorities]) {
		t.Error("it trusts nobody")
	}
	binary, err := elf.NewFile(bytes.NewReader(i.files[command]))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]
	if i.Architecture != architecture || binary.Machine != want {
		t.Errorf("it is for %s, its binary for %v, want %s", i.Architecture, binary.Machine, architecture)
	}
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("its binary needs %v, %v", libraries, err)
	}
}

// checkout is the tree as a clone has it, with what is added or changed since the last
// commit: make images compiles that too.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "tree.tar")
	changed := git(t, "-c", "user.name=test", "-c", "user.email=test@localhost", "stash", "create")
	git(t, "archive", "--output", archive, cmp.Or(changed, "HEAD"))
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-x", "-C", source, "-f", archive)
	return source
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, "git", append([]string{"-C", root}, args...)...)
}

// run runs a command and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var complained bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &complained
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, complained.String())
	}
	return strings.TrimSpace(string(out))
}
