// Command certmanager is cert-manager's controller with the issuers "ca" and
// "selfSigned" alone, for the cluster it runs in. From v1.12 on cert-manager's own
// main is a module that no proxy can serve: this one starts the same controllers.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options := controller.ContextOptions{IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: os.Getenv("NAMESPACE")}}
	// As cert-manager's own defaults.
	options.CertificateRequestMinimumBackoffDuration, options.CertificateRequestMaximumBackoffDuration = time.Hour, 32*time.Hour
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	var loops []controller.Interface
	for name, make := range controller.Known() {
		loop, err := make(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		loops = append(loops, loop)
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	var running sync.WaitGroup
	for _, loop := range loops {
		running.Go(func() {
			if err := loop.Run(2, ctx); err != nil {
				fmt.Fprintln(os.Stderr, "certmanager:", err)
			}
		})
	}
	running.Wait()
	return nil
}
