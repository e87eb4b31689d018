package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/internal/testenv"
)

func TestProvider_ReconcilesWhatSpokesSay(t *testing.T) {
	r := newRig(t)
	r.replace("prod", render("web", "consul", 1), render("api", "vault", 1))
	r.replace("dev", render("web", "consul", 7))
	r.sees("prod shop/web@1", 1)
	r.sees("prod shop/api@1", 1)
	r.sees("dev shop/web@7", 1)

	r.provider.Upsert("prod", render("web", "consul", 2))
	r.sees("prod shop/web@2", 1)
	r.provider.Upsert("prod", render("new", "consul", 1))
	r.sees("prod shop/new@1", 1)
	r.provider.Remove("prod", "shop", "api")
	r.sees("prod shop/api gone", 1)
	if n := r.count("dev shop/web@7"); n != 1 {
		t.Errorf("dev was reconciled %d times for what prod said", n)
	}
	// What nobody has is no event and no fault.
	r.provider.Remove("prod", "shop", "never")
	r.provider.Remove("stranger", "shop", "web")
	r.provider.Upsert("stranger", render("web", "consul", 1))
}

// A new session starts with an inventory; the cluster behind it stays.
func TestProvider_AReconnect(t *testing.T) {
	r := newRig(t)
	r.replace("prod", render("keep", "c", 1), render("gone", "c", 1))
	r.sees("prod shop/keep@1", 1)
	r.sees("prod shop/gone@1", 1)
	before := get(t, r.provider, "prod")

	r.replace("prod", render("keep", "c", 1), render("new", "c", 1))
	r.sees("prod shop/gone gone", 1) // it vanished while nobody watched
	r.sees("prod shop/new@1", 1)
	r.sees("prod shop/keep@1", 2) // a new session is owed its answer, changed or not
	if get(t, r.provider, "prod") != before {
		t.Error("the reconnect made another virtual cluster")
	}

	r.replace("prod")
	r.sees("prod shop/keep gone", 1)
	r.sees("prod shop/new gone", 1)
}

// A spoke that is with another replica costs no memory here, and one that came back
// keeps what it said.
func TestProvider_EmptiesWhatASpokeLeft(t *testing.T) {
	r := newRig(t)
	r.replace("prod", render("web", "c", 1))
	r.sees("prod shop/web@1", 1)
	left := r.provider.Version("prod")
	r.replace("prod", render("web", "c", 1))
	r.sees("prod shop/web@1", 2)
	r.provider.Empty("prod", left)
	r.provider.Upsert("prod", render("new", "c", 1))
	r.sees("prod shop/new@1", 1)
	if n := r.count("prod shop/web gone"); n != 0 {
		t.Error("what a spoke said after it came back is emptied")
	}
	r.provider.Empty("prod", r.provider.Version("prod"))
	r.sees("prod shop/web gone", 1)
	r.sees("prod shop/new gone", 1)
	r.provider.Empty("stranger", r.provider.Version("stranger"))
}

func get(t *testing.T, p *mirror.Provider, name string) cluster.Cluster {
	t.Helper()
	c, err := p.Get(t.Context(), multicluster.ClusterName(name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProvider_GoroutinesStayFlat(t *testing.T) {
	r := newRig(t)
	r.replace("warm", render("web", "c", 1))
	r.sees("warm shop/web@1", 1)
	r.replace("prod", render("web", "c", 1))
	r.sees("prod shop/web@1", 1)
	watched(t, 2)
	before := runtime.NumGoroutine()
	const reconnects = 200
	for i := range reconnects {
		r.replace("prod", render("web", "c", int64(2+i%2)))
	}
	r.sees("prod shop/web@3", 1)
	settles(t, "after 200 reconnects", before)

	// The library keeps one goroutine for each watch of a cluster that ever was, until
	// the manager ends: the controller of this test has one watch.
	r.replace("brief", render("web", "c", 1))
	r.sees("brief shop/web@1", 1)
	r.provider.Forget("brief")
	settles(t, "after a cluster was forgotten", before+1)
}

// watched waits until so many clusters are watched. An informer opens its watch only
// after it told of what it listed, and the goroutines of that watch are to be counted.
func watched(t *testing.T, clusters int) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() int {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("mirror.(*eventQueue).run("))
	}).WithTimeout(patience).Should(gomega.Equal(clusters))
}

// settles waits until there are no more goroutines than that.
func settles(t *testing.T, when string, most int) {
	t.Helper()
	gomega.NewWithT(t).Eventually(runtime.NumGoroutine).WithTimeout(patience).Should(gomega.BeNumerically("<=", most), when)
}

func TestProvider_Forget(t *testing.T) {
	r := newRig(t)
	r.replace("prod", render("web", "c", 1))
	r.replace("dev")
	r.sees("prod shop/web@1", 1)
	if names := slices.Sorted(slices.Values(r.provider.Names())); !slices.Equal(names, []string{"dev", "prod"}) {
		t.Errorf("names %v", names)
	}
	r.provider.Forget("prod")
	r.provider.Forget("prod")
	if _, err := r.provider.Get(t.Context(), "prod"); !errors.Is(err, multicluster.ErrClusterNotFound) {
		t.Errorf("error %v", err)
	}
	r.provider.Upsert("prod", render("web", "c", 2)) // of a session that is about to end
	if names := r.provider.Names(); !slices.Equal(names, []string{"dev"}) {
		t.Errorf("names %v", names)
	}
	// The name may come back.
	r.replace("prod", render("web", "c", 3))
	r.sees("prod shop/web@3", 1)
}

func TestProvider_ReplaceBeforeItRuns(t *testing.T) {
	p := mirror.NewProvider(testenv.Scheme())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the session is over"))
	if err := p.Replace(ctx, "prod", nil); err == nil || err.Error() != "the session is over" {
		t.Errorf("error %v", err)
	}
	if names := p.Names(); len(names) > 0 {
		t.Errorf("it has clusters: %v", names)
	}
}

// refusing is a manager that engages nothing.
type refusing struct{}

func (refusing) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error {
	return errors.New("no")
}

func TestProvider_AClusterThatIsNotEngagedIsNotKept(t *testing.T) {
	p := mirror.NewProvider(testenv.Scheme())
	ctx, cancel := context.WithCancel(t.Context())
	before, ran := runtime.NumGoroutine(), make(chan error, 1)
	go func() { ran <- p.Run(ctx, refusing{}) }()
	for range 3 {
		if err := p.Replace(t.Context(), "prod", nil); err == nil {
			t.Error("an engage that failed is no error")
		}
	}
	if names := p.Names(); len(names) > 0 {
		t.Errorf("it is kept: %v", names)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	settles(t, "after the provider ended", before)
}
