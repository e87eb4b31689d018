// Command hub runs the hub of Dynamic Config Fleet: it holds the credentials of
// stores, renders documents, and streams them to the spokes.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/hub"
	"dynamic-config.rs/fleet/internal/telemetry"
	"dynamic-config.rs/fleet/internal/version"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hub:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	hub         hub.Config
	logs        telemetry.LogConfig
	serverNames string
	audit       string
	showVersion bool
}

func (o *options) bindFlags(flags *flag.FlagSet) {
	cfg := &o.hub
	hostname, _ := os.Hostname()
	flags.StringVar(&cfg.Namespace, "namespace", envOr("POD_NAMESPACE", "dynamic-config-system"), "namespace of the hub's own Secrets")
	flags.StringVar(&cfg.ListenAddress, "listen-address", ":8443", "address that spokes connect to")
	flags.StringVar(&o.serverNames, "server-names", "", "comma-separated DNS names and IP addresses in the hub's certificate, beside "+hub.DefaultServerName)
	flags.StringVar(&cfg.TrustDomain, "trust-domain", "", "trust domain of the spokes' identities; never change it while spokes are enrolled")
	flags.StringVar(&cfg.Replica, "replica", envOr("POD_NAME", hostname), "name of this replica among those of the hub, a DNS name")
	flags.BoolVar(&cfg.LeaderElect, "leader-elect", true, "elect the replica that writes the status of classes; serving does not wait for it")
	flags.StringVar(&cfg.MetricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&cfg.HealthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.StringVar(&cfg.WebAddress, "web-address", "", "address of the fleet page, over TLS; none when empty")
	flags.StringVar(&cfg.WebAudience, "web-audience", hub.DefaultWebAudience, "audience of the tokens that the fleet page accepts; empty for those of the API server itself")
	flags.StringVar(&cfg.ProfilingAddress, "pprof-bind-address", "", "address of /debug/pprof, which anybody may ask who reaches it; none when empty")
	flags.DurationVar(&cfg.CertificateLifetime, "certificate-lifetime", 0, "lifetime of a spoke's certificate (default 24h)")
	flags.StringVar(&cfg.CASecret, "ca-secret", "", "Secret of type kubernetes.io/tls in the hub's namespace that somebody else keeps, to sign with; by default the hub makes and rotates its own root")
	flags.DurationVar(&cfg.CARotationGrace, "ca-rotation-grace", 0, "how long a new root is told to spokes before it signs (default 48h more than --certificate-lifetime)")
	flags.DurationVar(&cfg.Heartbeat, "heartbeat", 0, "interval of heartbeats, both ways (default 10s)")
	flags.DurationVar(&cfg.SessionAge, "session-age", 0, "age at which a session is replaced, give or take a fifth (default 30m)")
	flags.DurationVar(&cfg.DrainWindow, "drain-window", 0, "time over which spokes leave at a shutdown (default 5s)")
	flags.DurationVar(&cfg.BalanceInterval, "balance-interval", 0, "how often a replica compares its sessions with the others' and has some move off it where it holds clearly more (default 30s)")
	flags.Int64Var(&cfg.MaxDocumentBytes, "max-document-bytes", 0, "bytes of documents, and of what is rendered of them, to hold; the others are fetched again when needed (default 512 MiB)")
	flags.StringVar(&o.audit, "audit-log", "-", "where decisions, enrolments and ends of sessions are written, a JSON line each: a file that is appended to, - for standard output, or off")
	flags.BoolVar(&o.showVersion, "version", false, "print the version and exit")
	o.logs.BindFlags(flags)
}

func run() error {
	var o options
	o.bindFlags(flag.CommandLine) // controller-runtime adds --kubeconfig to it
	flag.Parse()
	if o.showVersion {
		_, err := fmt.Fprintln(os.Stdout, version.String())
		return err
	}
	log, level, err := telemetry.NewLogger(os.Stderr, o.logs)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	cfg := o.hub
	cfg.LogLevel = level
	if o.serverNames != "" {
		cfg.ServerNames = strings.Split(o.serverNames, ",")
	}
	if cfg.Audit, err = openAudit(o.audit); err != nil {
		return err
	}
	if cfg.REST, err = ctrl.GetConfig(); err != nil {
		return err
	}
	ctx := ctrl.LoggerInto(ctrl.SetupSignalHandler(), log)
	defer telemetry.StartTracing(ctx, log, "dynamic-config-hub", version.Version)()
	log.Info("Starting", "version", version.String(), "replica", cfg.Replica)
	return hub.Run(ctx, cfg)
}

// openAudit opens the audit log; it stays open as long as the process.
func openAudit(name string) (io.Writer, error) {
	switch name {
	case "-":
		return os.Stdout, nil
	case "off":
		return nil, nil
	}
	return os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}
