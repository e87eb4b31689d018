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
	lines := regexp.MustCompile(`(?m)^    ((?:export|dynconf|kubectl) .*)$`).FindAllStringSubmatch(demo.out.String(), -1)
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
	if pasted < 7 {
		t.Errorf("the demo names %d commands:\n%s", pasted, demo.out.String())
	}

	north := startMake(t, temporary, "demo-cluster", "NAME=north")
	north.await(t, "The agent runs until ")
	if said, code := shell(t, exports+"dynconf doctor --context north --hub-context hub"); code != 0 {
		t.Errorf("doctor of north ended with %d:\n%s", code, said)
	}
	north.end(t)
	if said, code := shell(t, exports+"kubectl --context north version"); code == 0 {
		t.Errorf("the context north is still there:\n%s", said)
	}
	demo.end(t)
	if left := processes(t, temporary); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if _, err := os.Stat(filepath.Join("..", "..", "out", "demo.kubeconfig")); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig: %v", err)
	}
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
