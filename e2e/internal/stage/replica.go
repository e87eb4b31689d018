package stage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"dynamic-config.rs/fleet/internal/testenv"
)

// Replica is one hub process.
type Replica struct {
	// Name of the replica, as sessions say it.
	Name string
	// Address it listens on.
	Address string
	// MetricsURL is its /metrics, ProfilesURL its /debug/pprof.
	MetricsURL, ProfilesURL string

	hub     *Hub
	health  string
	program *testenv.Program
}

// choosePorts finds ports to listen on, and has spokes led there.
func (r *Replica) choosePorts(ctx context.Context) error {
	ports, err := testenv.FreePorts(ctx, 4)
	if err != nil {
		return err
	}
	r.Address, r.health = loopback+ports[0], loopback+ports[1]
	r.MetricsURL, r.ProfilesURL = "http://"+loopback+ports[2]+"/metrics", "http://"+loopback+ports[3]+"/debug/pprof"
	r.hub.replicaMoved()
	return nil
}

// Start starts the process, unless it runs, and waits until it is ready.
func (r *Replica) Start(ctx context.Context, flags ...string) error {
	if r.Runs() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	choose := r.Address == ""
	return testenv.RetryPorts(func() error {
		if choose {
			if err := r.choosePorts(ctx); err != nil {
				return err
			}
		}
		choose = true // it keeps its ports over a restart, unless somebody took one meanwhile
		return r.start(ctx, flags)
	})
}

func (r *Replica) start(ctx context.Context, flags []string) error {
	kubeconfig, err := r.hub.ServiceAccountKubeconfig(ctx, Namespace, hubAccount)
	if err != nil {
		return err
	}
	args, err := knownTo(ctx, r.hub.binary, append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace, "--replica=" + r.Name,
		"--listen-address=" + r.Address, "--server-names=127.0.0.1",
		"--metrics-bind-address=" + hostOf(r.MetricsURL), "--health-probe-bind-address=" + r.health, "--pprof-bind-address=" + hostOf(r.ProfilesURL),
		"--log-level=debug", "--audit-log=" + r.auditLog(),
	}, slices.Concat(r.hub.args, flags)...))
	if err != nil {
		return err
	}
	if r.program, err = testenv.StartProgram(ctx, r.hub.Dir, r.Name, r.hub.binary, args...); err != nil {
		return err
	}
	// What a kubelet asks: ready, then alive.
	if err := r.program.WaitReady(ctx, probe("http://"+r.health+"/readyz")); err != nil {
		return err
	}
	return probe("http://" + r.health + "/healthz")(ctx)
}

// hostOf is the host and port of a URL.
func hostOf(address string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(address, "http://"), "/")
	return host
}

func (r *Replica) auditLog() string { return filepath.Join(r.hub.Dir, r.Name+"-audit.log") }

// Runs says whether the process runs.
func (r *Replica) Runs() bool {
	if r.program == nil {
		return false
	}
	select {
	case <-r.program.Exited():
		return false
	default:
		return true
	}
}

// Kill ends the process as kill -9 does.
func (r *Replica) Kill() {
	if r.program != nil {
		r.program.Kill()
	}
}

// Terminate asks the process to end, as a kubelet does, and waits for it.
func (r *Replica) Terminate(ctx context.Context) error {
	if !r.Runs() {
		return nil
	}
	return r.program.Terminate(ctx)
}

// Log is everything the process wrote.
func (r *Replica) Log() ([]byte, error) {
	if r.program == nil {
		return nil, nil
	}
	return r.program.Log()
}

// probe asks a health endpoint.
func probe(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
			return fmt.Errorf("%s: %s: %s", url, resp.Status, said)
		}
		return nil
	}
}
