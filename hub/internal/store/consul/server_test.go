package consul_test

import (
	"testing"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/internal/testenv"
)

// writer is the library's own client, to write and to look with.
func writer(tb testing.TB, server *testenv.ConsulServer) *api.Client {
	tb.Helper()
	client, err := api.NewClient(&api.Config{Address: server.Addr, Token: server.Token})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}
