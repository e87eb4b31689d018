package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// startTimeout bounds the start of one server, or one control plane: 5 s on an
// idle machine, a minute where several start on two loaded cores.
const startTimeout = 3 * time.Minute

// DefaultIssuer is the issuer of a control plane's ServiceAccount tokens where
// Options say nothing. As with real clusters, many have the same: only their
// keys tell them apart.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Options say how a control plane starts. The zero value is good.
type Options struct {
	// Dir keeps state, certificates, kubeconfigs and logs. When empty, a temporary
	// folder that Stop removes.
	Dir string
	// Issuer of ServiceAccount tokens; DefaultIssuer when empty.
	Issuer string
	// APIServerArgs are passed to kube-apiserver after ours.
	APIServerArgs []string
	// NoControllers leaves kube-controller-manager out: nothing is collected and
	// namespaces do not go. Starts a second faster.
	NoControllers bool
}

// Cluster is a running control plane with our CustomResourceDefinitions
// installed. It has no nodes: a Pod is stored and never runs.
type Cluster struct {
	// Config is the administrator's; its rate is not limited.
	Config *rest.Config
	// Kubeconfig is a file with the same rights.
	Kubeconfig string
	// Client is the administrator's, without a cache, for core, extension and our
	// own types.
	Client client.Client
	// Dir holds the logs, each named as its binary.
	Dir string

	removeDir bool
	processes []*process // in order of start
}

// Start starts a control plane. ctx bounds the start alone.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, remove, err := stateDir(options.Dir, "cluster")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, removeDir: remove}
	if err := c.start(ctx, options); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", errors.Join(err, c.Stop()))
	}
	return c, nil
}

// StartAll starts a control plane for each of options, all at the same time.
// When one fails, the others are stopped.
func StartAll(ctx context.Context, options ...Options) ([]*Cluster, error) {
	all := make([]*Cluster, len(options))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, o := range options {
		group.Go(func() (err error) {
			all[i], err = Start(groupCtx, o)
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		return all, nil
	}
	for _, c := range all {
		if c != nil {
			err = errors.Join(err, c.Stop())
		}
	}
	return nil, err
}

// Stop kills the servers and removes what they kept. It may be called twice.
func (c *Cluster) Stop() error {
	for i := range c.processes {
		c.processes[len(c.processes)-1-i].stop()
	}
	if !c.removeDir {
		return nil
	}
	return os.RemoveAll(c.Dir)
}

// PIDs returns the process of each server that runs, by the name of its binary.
func (c *Cluster) PIDs() map[string]int {
	pids := make(map[string]int, len(c.processes))
	for _, p := range c.processes {
		pids[p.name] = p.cmd.Process.Pid
	}
	return pids
}

// start is the steps of Start.
func (c *Cluster) start(ctx context.Context, options Options) error {
	keys, err := newPKI(c.Dir)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	etcd, err := c.startEtcd(ctx)
	if err != nil {
		return err
	}
	url, err := c.startAPIServer(ctx, keys, etcd, options)
	if err != nil {
		return err
	}
	if err := c.connect(url, keys); err != nil {
		return err
	}
	// Before the controllers: the garbage collector looks for new kinds of object
	// at its start and every 30 s only.
	if err := installCRDs(ctx, c.Config, c.Client); err != nil {
		return fmt.Errorf("install the CustomResourceDefinitions: %w", err)
	}
	if options.NoControllers {
		return nil
	}
	return c.startControllers(ctx, keys)
}

// connect makes the administrator's configuration, client and kubeconfig.
func (c *Cluster) connect(url string, keys *pki) (err error) {
	c.Config = &rest.Config{
		Host: url,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: keys.caPEM, CertData: keys.adminCertPEM, KeyData: keys.adminKeyPEM,
		},
		QPS: -1, // no limit: a test is not to wait for its own client
	}
	c.Client, err = client.New(c.Config, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	c.Kubeconfig = filepath.Join(c.Dir, "admin.kubeconfig")
	return WriteKubeconfig(c.Config, c.Kubeconfig)
}

// Scheme returns a new scheme of the core, extension and our own types.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two types of one kind: cannot happen in a build that passed once
		}
	}
	return s
}

// stateDir returns dir, made when it is not there, or a temporary folder that is
// to be removed.
func stateDir(dir, what string) (path string, remove bool, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "dynamic-config-"+what+"-")
		return path, true, err
	}
	// Servers run inside the folder, so a relative path would mean another one.
	if path, err = filepath.Abs(dir); err != nil {
		return "", false, err
	}
	return path, false, os.MkdirAll(path, 0o700)
}
