package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
)

// The agent runs in every cluster. What pulls a template engine in, say, makes the
// linker keep ten megabytes more.
func TestAgent_IsSmall(t *testing.T) {
	const most = 45e6
	info, err := os.Stat(filepath.Join("..", "bin", "spoke"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > most {
		t.Errorf("the agent's binary has %.1f MB, want %.1f at most", float64(info.Size())/1e6, most/1e6)
	}
}
