package main

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// hubService is the Service of the hub's base.
const hubService = "dynamic-config-hub"

// publishAddress does what a load balancer's controller does: the hub's Service says
// where the hub is reached, and dynconf cluster enroll finds it there.
func (n *narrator) publishAddress(ctx context.Context, s *stage.Stage) error {
	host, port, err := net.SplitHostPort(s.Hub.Address)
	if err != nil {
		return err
	}
	for _, patch := range [][]string{
		{`{"spec":{"type":"LoadBalancer","ports":[{"port":` + port + `,"name":"spokes","targetPort":"spokes"}]}}`, "--type=merge"},
		{`{"status":{"loadBalancer":{"ingress":[{"ip":"` + host + `"}]}}}`, "--type=merge", "--subresource=status"},
	} {
		args := append([]string{"patch", "service", hubService, "-n", stage.Namespace, "-p"}, patch...)
		if _, err := n.run(ctx, s.Hub.Kubeconfig, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// hubClient asks the hub cluster of a demo.
func hubClient(config *clientcmdapi.Config) (client.Client, error) {
	hub, err := clientcmd.NewNonInteractiveClientConfig(*config, hubContext, nil, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	return testenv.NewClient(hub)
}

// publishedAddress is where the hub of a running demo is reached.
func publishedAddress(ctx context.Context, hub client.Reader) (string, error) {
	service := &corev1.Service{}
	if err := hub.Get(ctx, client.ObjectKey{Namespace: stage.Namespace, Name: hubService}, service); err != nil {
		return "", fmt.Errorf("ask the hub cluster of the demo: %w", err)
	}
	ingress := service.Status.LoadBalancer.Ingress
	if len(ingress) == 0 || len(service.Spec.Ports) == 0 {
		return "", fmt.Errorf("service %s says no address", hubService)
	}
	return net.JoinHostPort(ingress[0].IP, fmt.Sprint(service.Spec.Ports[0].Port)), nil
}
