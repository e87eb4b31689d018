package web_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/internal/testenv"
)

var (
	// hub is the hub's cluster.
	hub *testenv.Cluster
	// logged is all that the tests of the package log, at every level.
	logged transcript
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(funcr.New(func(prefix, args string) { logged.add(prefix + " " + args) }, funcr.Options{Verbosity: 10}))
	testenv.Main(m, func(c *testenv.Cluster) { hub = c })
}

// transcript collects lines. It is safe for concurrent use.
type transcript struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *transcript) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
