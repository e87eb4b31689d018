// Command spoke is the agent of a workload cluster. It takes flags, makes a
// configuration of them and runs package spoke until it is told to end.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/telemetry"
	"dynamic-config.rs/fleet/internal/version"
	"dynamic-config.rs/fleet/spoke"
)

// gcPercent trades time for memory: an agent at rest collects hardly ever, and one with
// 1,000 Renders is 8 MiB smaller than at Go's 100. GOGC overrides it.
const gcPercent = 50

func main() {
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "spoke:", err)
		os.Exit(1)
	}
}

// run reads the flags and runs the agent until ctx ends.
func run(ctx context.Context) error {
	config := spoke.Config{Version: version.Version, Instance: os.Getenv("POD_UID")}
	var logs telemetry.LogConfig
	var namespaces string
	var showVersion bool
	flags := flag.CommandLine // has --kubeconfig, of controller-runtime
	logs.BindFlags(flags)
	bind(flags, &config)
	flags.StringVar(&namespaces, "watch-namespaces", "", "comma-separated namespaces whose Renders are kept; all when empty")
	flags.BoolVar(&showVersion, "version", false, "print the version and end")
	flag.Parse()
	if showVersion {
		_, err := fmt.Fprintln(os.Stdout, version.String())
		return err
	}
	if namespaces != "" {
		config.WatchNamespaces = strings.Split(namespaces, ",")
	}
	log, level, err := telemetry.NewLogger(os.Stderr, logs)
	if err != nil {
		return err
	}
	config.LogLevel = level
	log = log.WithValues("cluster", config.Cluster)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if config.REST, err = apiServer(); err != nil {
		return err
	}
	log.Info("Starting", "version", version.String())
	defer telemetry.StartTracing(ctx, log, "dynamic-config-spoke", version.Version)()
	return spoke.Run(ctrl.LoggerInto(ctx, log), config)
}

// apiServer is how to reach the API server of the workload cluster.
func apiServer() (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no API server: name a file with --kubeconfig; in a pod, its ServiceAccount is used")
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server by --kubeconfig or, in a pod, its ServiceAccount: %w", err)
	}
	return config, nil
}

// bind makes flags for the configuration.
func bind(flags *flag.FlagSet, c *spoke.Config) {
	flags.StringVar(&c.HubAddress, "hub-address", "", "host:port of the hub")
	flags.StringVar(&c.HubCAFile, "hub-ca-file", "", "file with the hub's roots in PEM")
	flags.StringVar(&c.HubServerName, "hub-server-name", spoke.DefaultServerName, "name in the hub's certificate")
	flags.StringVar(&c.Cluster, "cluster", "", "name of this cluster's SpokeCluster on the hub")
	flags.StringVar(&c.TrustDomain, "trust-domain", "", "trust domain of the hub, where it has another than the default")
	flags.StringVar(&c.JoinTokenFile, "join-token-file", "", "file with a join token, for the first contact of a cluster whose keys the hub does not know")
	flags.StringVar(&c.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "dynamic-config-system"), "the agent's own namespace; by default $POD_NAMESPACE")
	flags.DurationVar(&c.StaleAfter, "stale-after", 0, "how long the hub may be away before Renders are marked Stale; 10m when 0")
	flags.StringVar(&c.ServiceAccount, "service-account", os.Getenv("POD_SERVICE_ACCOUNT"), "the agent's own ServiceAccount in that namespace, which proves the cluster; by default $POD_SERVICE_ACCOUNT, then "+v1alpha1.DefaultSpokeServiceAccount)
	flags.StringVar(&c.MetricsBindAddress, "metrics-bind-address", ":8080", "address of the metrics; 0 for none")
	flags.StringVar(&c.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.StringVar(&c.PprofBindAddress, "pprof-bind-address", "", "address of /debug/pprof, which anybody may ask who reaches it; none when empty")
	flags.DurationVar(&c.Backoff.AfterSession, "reconnect-after-session", 0, "longest first delay after a session; 15s when 0")
	flags.DurationVar(&c.Backoff.Min, "reconnect-min", 0, "shortest delay after an attempt that failed; 1s when 0")
	flags.DurationVar(&c.Backoff.Max, "reconnect-max", 0, "longest delay after attempts that failed; 60s when 0")
}
