// Command netpol enforces the NetworkPolicies of a node's pods, by kube-router's own
// controller and without the rest of kube-router. Its one argument is a kubeconfig.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "netpol:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: netpol KUBECONFIG")
	}
	rest, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	config := options.NewKubeRouterConfig()
	config.EnableIPv4 = true
	iptables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &sync.Mutex{}, iptables, sets)
	if err != nil {
		return err
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler, policies: controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // nobody asks, and an unheard beat would stop the controller
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	return nil
}
