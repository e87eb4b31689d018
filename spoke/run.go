package spoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/telemetry"
	"dynamic-config.rs/fleet/spoke/internal/controller"
	"dynamic-config.rs/fleet/spoke/internal/credential"
	"dynamic-config.rs/fleet/spoke/internal/serviceaccount"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

// Run runs the agent until ctx ends. The logger is taken from ctx.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	mgr, err := newManager(ctx, c)
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	account, err := serviceaccount.New(mgr.GetConfig(), c.Namespace, c.ServiceAccount)
	if err != nil {
		return err
	}
	reconciler := controller.New(mgr, c.StaleAfter, agentOf(c))
	hub, err := syncclient.New(syncclient.Config{
		Address: c.HubAddress, ServerName: c.HubServerName, CAFile: c.HubCAFile,
		Cluster: c.Cluster, TrustDomain: c.TrustDomain, Version: c.Version, Instance: c.Instance,
		Credentials: &credential.Secret{Client: mgr.GetClient(), Namespace: c.Namespace},
		Evidence:    account, JoinTokenFile: c.JoinTokenFile, Receiver: reconciler, Backoff: c.Backoff,
	})
	if err != nil {
		return err
	}
	if err := reconciler.SetupWithManager(ctx, mgr, hub); err != nil {
		return err
	}
	if err := addChecks(mgr, hub); err != nil {
		return err
	}
	session := func(ctx context.Context) error {
		// Before the first session, so that its inventory is whole.
		if err := reconciler.Prime(ctx); err != nil {
			return err
		}
		return hub.Run(ctx)
	}
	for _, run := range []manager.RunnableFunc{reconciler.WatchHub, reconciler.WatchTroubles, session} {
		if err := mgr.Add(run); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// agentOf is the object that events about the agent itself are about: what it keeps in
// its own namespace, whatever runs it.
func agentOf(c Config) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: c.Namespace, Name: credential.SecretName}
}

// newManager makes a manager that caches Renders, and targets as metadata.
func newManager(ctx context.Context, c Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, authorizationv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return ctrl.NewManager(restConfig(c), ctrl.Options{
		Scheme: scheme,
		Logger: ctrl.LoggerFrom(ctx),
		// For its logger: the manager ends what it started by itself, in order.
		BaseContext: func() context.Context { return context.WithoutCancel(ctx) },
		Cache:       cacheOptions(c.WatchNamespaces),
		// Contents are never cached: what is read is read for one decision.
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
		Metrics:                telemetry.MetricsServer(c.MetricsBindAddress, c.LogLevel),
		HealthProbeBindAddress: c.HealthProbeBindAddress,
		PprofBindAddress:       c.PprofBindAddress,
		Controller: config.Controller{
			SkipNameValidation: new(true), // several agents may run in one process
			// The priority queue of controller-runtime 0.24 can block for ever where it is shut
			// down with items in it: an agent that stopped at work would not end.
			UsePriorityQueue: new(false),
		},
	})
}

// restConfig takes off the client's own rate limit. The controller's eight workers
// have one request each under way, and what the API server has no room for, its
// priority and fairness puts off.
func restConfig(c Config) *rest.Config {
	config := rest.CopyConfig(c.REST)
	config.QPS = -1
	config.UserAgent = "dynamic-config-spoke/" + c.Version
	return config
}

// addChecks serves liveness and readiness. Losing the hub is a condition and a
// metric, not unreadiness: there is nothing better to switch to.
func addChecks(mgr ctrl.Manager, hub *syncclient.Client) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	err := mgr.AddReadyzCheck("caches", func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return mgr.AddReadyzCheck("identity", func(*http.Request) error {
		if !hub.Enrolled() {
			return errors.New("not enrolled with the hub")
		}
		return nil
	})
}
