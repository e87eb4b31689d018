package hub

import (
	"context"
	"net"
	"time"

	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/web"
)

// pageNames are in the certificate of the fleet page beside the hub's own: what a
// browser asks for at the end of a kubectl port-forward.
var pageNames = []string{"localhost", "127.0.0.1"}

// addPage has the manager serve the fleet page, on every replica, where one is wanted.
func addPage(cfg Config, mgr mcmanager.Manager, p parts, s *serving) error {
	if cfg.WebAddress == "" {
		return nil
	}
	local := mgr.GetLocalManager()
	page := web.New(web.Config{
		Reader: &web.Reader{
			Hub: local.GetCache(), Sessions: p.clusters, Mirrors: p.mirrors, Certificates: s.sessions.Certificates,
			CertificateLifetime: cfg.CertificateLifetime, Replica: cfg.Replica,
		},
		Reviews: local.GetClient(), Audience: cfg.WebAudience, Audit: p.audits, Now: time.Now,
	})
	certificate := authority.NewServerCertificate(p.secrets.Authority, append(serverNames(cfg), pageNames...))
	return local.Add(everyReplica(func(ctx context.Context) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.WebAddress)
		if err != nil {
			return err
		}
		return page.Serve(ctx, listener, certificate.Get)
	}))
}
