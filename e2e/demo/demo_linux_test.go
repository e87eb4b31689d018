package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// A user keeps the demo, pastes what it prints, adds a cluster, and kills make: all of
// it works, and no process stays.
func TestDemo_KeptLookedAtAndKilled(t *testing.T) {
	if err := checkAlone(t.Context()); err != nil {
		t.Fatalf("the demo of a user is not disturbed, end it first: %v", err)
	}
	temporary := t.TempDir()
	demo := startMake(t, temporary, "demo", "KEEP=1")
	demo.await(t, "The hub listens on ")
	lines := regexp.MustCompile(`(?m)^    ((?:export|dynconf|kubectl|sed) .*)$`).FindAllStringSubmatch(demo.out.String(), -1)
	var exports string
	pasted := 0
	for _, line := range lines {
		if strings.HasPrefix(line[1], "export ") {
			exports += line[1] + "\n"
			continue
		}
		if exports == "" {
			continue // what the story shows of kubectl
		}
		pasted++
		want := 0
		if strings.HasPrefix(line[1], "dynconf doctor") {
			want = 1 // namespace stranger
		}
		if said, code := shell(t, exports+line[1]); code != want {
			t.Errorf("%s ended with %d:\n%s", line[1], code, said)
		}
	}
	if pasted < 11 {
		t.Errorf("the demo names %d commands:\n%s", pasted, demo.out.String())
	}
	showsPage(t, exports, demo.out.String())
	refused(t, temporary, "west", "the demo has a cluster west: take another NAME")
	refused(t, temporary, "No_Name", "the cluster's name is not a DNS label")

	north := startMake(t, temporary, "demo-cluster", "NAME=north")
	north.await(t, "The agent runs until ")
	if said := north.out.String(); strings.Contains(said, "--replace-keys") {
		t.Errorf("a new cluster has no keys to replace:\n%s", said)
	}
	if said, code := shell(t, exports+"dynconf doctor --context north --hub-context hub"); code != 0 {
		t.Errorf("doctor of north ended with %d:\n%s", code, said)
	}
	pid := regexp.MustCompile(`or kill (\d+)`).FindStringSubmatch(north.out.String())
	if said, code := shell(t, "kill "+pid[1]); code != 0 {
		t.Fatalf("kill ended with %d:\n%s", code, said)
	}
	north.awaitEnd(t, "Its SpokeCluster stays on the hub")
	if said, code := shell(t, exports+"kubectl --context north version"); code == 0 {
		t.Errorf("the context north is still there:\n%s", said)
	}

	again := startMake(t, temporary, "demo-cluster", "NAME=north")
	again.await(t, "The agent runs until ")
	if said := again.out.String(); !strings.Contains(said, "that ran before, with other keys: --replace-keys pins") {
		t.Errorf("the replaced keys are not explained:\n%s", said)
	}
	demo.end(t)
	again.awaitEnd(t, "The demo that it stood beside is gone")
	refused(t, temporary, "north", "no demo runs here")
	if left := processes(t, temporary); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if left := folders(t, temporary); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if _, err := os.Stat(filepath.Join("..", "..", "out", "demo.kubeconfig")); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig: %v", err)
	}
}

// showsPage opens the fleet page as the demo says.
func showsPage(t *testing.T, exports, said string) {
	t.Helper()
	url := regexp.MustCompile(`https://127\.0\.0\.1:\d+`).FindString(said)
	token := regexp.MustCompile(`kubectl .* create token .*`).FindString(said)
	page, code := shell(t, exports+`curl --silent --fail --insecure --header "Authorization: Bearer $(`+token+`)" `+url+`/`)
	if code != 0 || !strings.Contains(page, "of 2 accepted clusters connected") {
		t.Errorf("the fleet page ended with %d:\n%s", code, page)
	}
}

// refused has a cluster of a name refused, which leaves no folder.
func refused(t *testing.T, temporary, name, want string) {
	t.Helper()
	before := folders(t, temporary)
	r := startMake(t, temporary, "demo-cluster", "NAME="+name)
	r.awaitEnd(t, want)
	if after := folders(t, temporary); len(after) != len(before) || strings.Contains(r.out.String(), "the logs are kept") {
		t.Errorf("%s leaves %v:\n%s", name, after, r.out.String())
	}
}

// folders are those of demos.
func folders(t *testing.T, temporary string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(temporary, "dynamic-config-demo-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Whoever kills make -9 leaves nothing behind, either.
func TestDemo_EndsWithItsParent(t *testing.T) {
	temporary := t.TempDir()
	demo := startMake(t, temporary, "demo")
	demo.await(t, "Starting three real control planes")
	demo.signal(t, syscall.SIGKILL)
	<-demo.ended
	gone(t, temporary)
}

// recipe is a make that runs.
type recipe struct {
	cmd   *exec.Cmd
	out   *lockedBuffer
	ended chan struct{}
}

// startMake runs a target; everything that it starts has the folder in its environment.
func startMake(t *testing.T, temporary string, args ...string) *recipe {
	t.Helper()
	r := &recipe{out: &lockedBuffer{}, ended: make(chan struct{})}
	r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), "make", append([]string{"-C", filepath.Join("..", "..")}, args...)...)
	// This may be a child of make itself.
	r.cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "MAKEFLAGS=", "MAKELEVEL=", "MFLAGS=")
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with make, and the cleanup waits for it
		_ = r.cmd.Wait() // its code is that of a program that a signal ended
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-r.ended
	})
	return r
}

// await waits until make wrote a text.
func (r *recipe) await(t *testing.T, text string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*patience, true, func(context.Context) (bool, error) {
		select {
		case <-r.ended:
			t.Fatalf("make ended:\n%s", r.out.String())
		default:
		}
		return strings.Contains(r.out.String(), text), nil
	})
	if err != nil {
		t.Fatalf("make never wrote %q (%v):\n%s", text, err, r.out.String())
	}
}

// awaitEnd waits for the end of make, by when it wrote a text.
func (r *recipe) awaitEnd(t *testing.T, text string) {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(2 * patience):
		t.Fatalf("make does not end:\n%s", r.out.String())
	}
	if !strings.Contains(r.out.String(), text) {
		t.Errorf("make never wrote %q:\n%s", text, r.out.String())
	}
}

func (r *recipe) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end ends make as kill does, and waits.
func (r *recipe) end(t *testing.T) {
	t.Helper()
	r.signal(t, syscall.SIGTERM)
	<-r.ended
}

// shell runs lines as a user pastes them, in the repository's root.
func shell(t *testing.T, lines string) (said string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", lines)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// gone waits until no process is left.
func gone(t *testing.T, temporary string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return len(processes(t, temporary)) == 0, nil
	})
	if err != nil {
		t.Errorf("still there: %v", processes(t, temporary))
	}
}

// processes are the command lines of those with the folder in their environment.
func processes(t *testing.T, temporary string) []string {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range environments {
		environment, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environment, []byte("TMPDIR="+temporary+"\x00")) {
			continue // somebody else's, or it ended meanwhile
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// lockedBuffer is written by a process and read by the test.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends.
func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// String is everything so far.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
