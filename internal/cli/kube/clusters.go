package kube

import (
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// FieldManager is how the API server records what a command changed.
const FieldManager = "dynconf"

// Names of the sides, for people.
const (
	WorkloadSide = "workload cluster"
	HubSide      = "hub cluster"
)

// Clusters are the flags that say which two clusters are meant.
type Clusters struct {
	flags                     *genericclioptions.ConfigFlags
	hubKubeconfig, hubContext string
}

// Conn is a connection to one side.
type Conn struct {
	client.WithWatch
	// Side is WorkloadSide or HubSide.
	Side string
	// Config is what the connection was made of.
	Config *rest.Config
	// Assumed says that no flag names the hub cluster: this is the workload cluster.
	Assumed bool
}

// NewClusters returns the flags of kubectl that make sense for two clusters.
func NewClusters() *Clusters {
	all := genericclioptions.NewConfigFlags(false)
	return &Clusters{flags: &genericclioptions.ConfigFlags{
		KubeConfig: all.KubeConfig, Context: all.Context, Namespace: all.Namespace,
		Impersonate: all.Impersonate, ImpersonateGroup: all.ImpersonateGroup, Timeout: all.Timeout,
	}}
}

// AddFlags adds the flags to a set.
func (c *Clusters) AddFlags(flags *pflag.FlagSet) {
	c.flags.AddFlags(flags)
	flags.StringVar(&c.hubKubeconfig, "hub-kubeconfig", "", "Path to the kubeconfig file of the hub cluster; --kubeconfig when empty")
	flags.StringVar(&c.hubContext, "hub-context", "", "The name of the kubeconfig context of the hub cluster; that of the workload cluster when empty")
}

// HubStated says whether the flags name a hub cluster of its own.
func (c *Clusters) HubStated() bool { return c.hubKubeconfig != "" || c.hubContext != "" }

// Namespace is the namespace that --namespace or the context names.
func (c *Clusters) Namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// Workload connects to the workload cluster.
func (c *Clusters) Workload() (*Conn, error) { return connect(WorkloadSide, c.flags) }

// WorkloadAt connects to the workload cluster of another context.
func (c *Clusters) WorkloadAt(context string) (*Conn, error) {
	return connect(WorkloadSide, c.other(*c.flags.KubeConfig, context))
}

// Hub connects to the hub cluster.
func (c *Clusters) Hub() (*Conn, error) {
	switch {
	case c.hubKubeconfig != "":
		return connect(HubSide, c.other(c.hubKubeconfig, c.hubContext))
	case c.hubContext != "":
		return connect(HubSide, c.other(*c.flags.KubeConfig, c.hubContext))
	}
	conn, err := connect(HubSide, c.flags)
	if err != nil {
		return nil, err
	}
	conn.Assumed = true
	return conn, nil
}

// other are the flags with another cluster.
func (c *Clusters) other(kubeconfig, context string) *genericclioptions.ConfigFlags {
	return &genericclioptions.ConfigFlags{
		KubeConfig: &kubeconfig, Context: &context, Namespace: c.flags.Namespace,
		Impersonate: c.flags.Impersonate, ImpersonateGroup: c.flags.ImpersonateGroup, Timeout: c.flags.Timeout,
	}
}

// connect makes a client. It sends nothing yet.
func connect(side string, flags *genericclioptions.ConfigFlags) (*Conn, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", side, err)
	}
	config.QPS = -1 // a person waits; the API server paces whom it must
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", side, err)
	}
	return &Conn{WithWatch: c, Side: side, Config: config}, nil
}

// Scheme returns a scheme of every type that a command reads or writes.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two types of one kind: cannot happen in a build that passed once
		}
	}
	return s
}

// WorkloadFlags are the flags that name the workload cluster, as they were given.
func (c *Clusters) WorkloadFlags() (kubeconfig, context string) {
	return *c.flags.KubeConfig, *c.flags.Context
}
