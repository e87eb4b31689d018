// Package e2e_test plays the product's stories on real parts: three control planes,
// Consul with ACLs, and the hub and two agents as processes of their own.
package e2e_test

import (
	"context"
	"log"
	"os"
	"testing"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience bounds every wait: what takes seconds on a quiet machine.
const patience = 90 * time.Second

// fleet is the stage that all stories share; they keep apart by namespace.
var (
	fleet  *stage.Stage
	consul *testenv.ConsulServer
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dynamic-config-e2e-")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(dir)
	stopCollector, err := startCollector(ctx)
	if err != nil {
		log.Print(err)
		return 1
	}
	defer stopCollector()
	if consul, err = testenv.StartConsul(ctx, testenv.ConsulOptions{ACL: true}); err != nil {
		log.Print(err)
		return 1
	}
	defer consul.Stop()
	began := time.Now()
	fleet, err = stage.Start(ctx, stage.Options{
		Dir: dir, Spokes: []string{"east", "west"},
		HubArgs:   []string{"--heartbeat=2s", "--ca-rotation-grace=1s"},
		SpokeArgs: []string{"--reconnect-after-session=1s", "--reconnect-min=200ms", "--reconnect-max=2s"},
	})
	if err != nil {
		log.Print(err)
		return 1
	}
	defer fleet.Stop()
	log.Printf("three control planes, a hub and two agents are up after %.1f s", time.Since(began).Seconds())
	return m.Run()
}
