package hub

import (
	"testing"

	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/hub/internal/feed"
)

func TestConfig_BytesOfDocuments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set, want int64
		refused   bool
	}{
		"have a default":         {0, feed.DefaultMaxBytes, false},
		"may be set":             {1 << 30, 1 << 30, false},
		"are refused below zero": {-1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{REST: &rest.Config{}, Namespace: "system", ListenAddress: "127.0.0.1:0", MaxDocumentBytes: tc.set}
			if err := cfg.Validate(); (err != nil) != tc.refused || err == nil && cfg.MaxDocumentBytes != tc.want {
				t.Errorf("error %v, %d bytes", err, cfg.MaxDocumentBytes)
			}
		})
	}
}
