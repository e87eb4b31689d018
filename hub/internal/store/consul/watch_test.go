package consul

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

// script answers requests in memory, so that a test can let hours pass.
type script func(r *http.Request) (index uint64, version int)

func (s script) RoundTrip(r *http.Request) (*http.Response, error) {
	index, version := s(r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	key := strings.TrimPrefix(r.URL.Path, "/v1/kv/")
	body := fmt.Sprintf(`[{"Key":%q,"ModifyIndex":%d,"Value":%q}]`, key, version, base64.StdEncoding.EncodeToString([]byte("text")))
	return &http.Response{
		StatusCode: http.StatusOK,
		Header: http.Header{
			"X-Consul-Index": {strconv.FormatUint(index, 10)}, "X-Consul-Lastcontact": {"0"}, "X-Consul-Knownleader": {"true"},
		},
		Body:    io.NopCloser(strings.NewReader(body)),
		Request: r,
	}, nil
}

// block waits as a blocking query does.
func block(r *http.Request) {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || r.URL.Query().Get("index") == "" {
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(wait):
	}
}

func scripted(t *testing.T, s script) *Client {
	t.Helper()
	client, err := newClient(Config{Endpoint: "http://consul.test"}, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// watchFor lets a Watch run for a while of the bubble's time and wants no news.
func watchFor(t *testing.T, client *Client, key policy.Key, after string, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if doc, err := client.Watch(ctx, key, after); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got document %t, error %v; want the context's end", doc != nil, err)
	}
}

func TestWatch_RequestRateIsBounded(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		index func(n int64) uint64
		most  int64
	}{
		"an index that stays 0 never blocks":       {func(int64) uint64 { return 0 }, 610},
		"an index that always goes back":           {func(n int64) uint64 { return uint64(1_000_000 - n) }, 810},
		"an index that always grows, without news": {func(n int64) uint64 { return uint64(1_000_000 + n) }, 610},
		"an index that stays, answered at once":    {func(int64) uint64 { return 7 }, 610},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				client := scripted(t, func(*http.Request) (uint64, int) { return tc.index(requests.Add(1)), 7 })
				watchFor(t, client, "a", "7", 10*time.Minute)
				if got := requests.Load(); got > tc.most || got < 2 {
					t.Errorf("%d requests in ten minutes, want at most %d", got, tc.most)
				}
			})
		})
	}
}

func TestWatch_IndexStartsAnewWhenItGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		client := scripted(t, func(r *http.Request) (uint64, int) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.URL.Query().Get("index"))
			if len(asked) < 3 {
				return 900, 7
			}
			return 6, 8 // a snapshot was restored
		})
		doc, err := client.Watch(t.Context(), "a", "7")
		if err != nil || doc.Version != "8" {
			t.Fatalf("got %+v, %v", doc, err)
		}
		mu.Lock()
		defer mu.Unlock()
		// From the version, which has the key read; from Consul's index, which went
		// back, as the leader says; the key again.
		if got := strings.Join(asked, ","); !strings.HasPrefix(got, "7,,900,,") {
			t.Errorf("asked with indexes %s, want 7,,900,,", got)
		}
	})
}

func TestWatch_QuietDocumentCostsOneQueryAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		client := scripted(t, func(r *http.Request) (uint64, int) {
			requests.Add(1)
			block(r)
			return 7, 7
		})
		watchFor(t, client, "a", "7", time.Hour)
		if got := requests.Load(); got > 90 {
			t.Errorf("%d requests in an hour, want at most 90", got)
		}
	})
}

func TestFetch_TimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := scripted(t, func(r *http.Request) (uint64, int) {
			<-r.Context().Done()
			return 0, 0
		})
		_, err := client.Fetch(t.Context(), "a")
		if err == nil || err.Error() != "fetch a: no answer in time" {
			t.Errorf("got %v", err)
		}
	})
}
