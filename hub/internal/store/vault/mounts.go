package vault

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// mountFor is how long what is known of an engine is believed: an engine may be
	// replaced by one of another version, and a policy may come to allow metadata.
	mountFor = 10 * time.Minute
	// maxMounts bounds what is remembered where keys name engines that nobody
	// confirmed.
	maxMounts = 1024
)

// mount is a KV secrets engine.
type mount struct {
	path    string // ends with /
	version int
	until   time.Time
	// blind says that the token may read data here and no metadata.
	blind atomic.Bool
}

// place is where a key points.
type place struct {
	*mount
	rest string // of the key, below the mount
}

// data is the path of the document itself.
func (p place) data() string {
	if p.version == 1 {
		return p.path + p.rest
	}
	return p.path + "data/" + p.rest
}

// metadata is the path of the document's versions, in KV 2.
func (p place) metadata() string {
	return p.path + "metadata/" + p.rest
}

// mounts are the engines that were asked for.
type mounts struct {
	stated int // version of all; zero when Vault is asked

	// mu guards known, by path.
	mu    sync.Mutex
	known map[string]*mount
}

func newMounts(stated int) *mounts {
	return &mounts{stated: stated, known: map[string]*mount{}}
}

// of answers the place of a key whose engine is known. No engine of Vault is inside
// another, so at most one fits.
func (m *mounts) of(key policy.Key, now time.Time) (place, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := string(key)
	for at := range text {
		if text[at] != '/' {
			continue
		}
		if found, ok := m.known[text[:at+1]]; ok && now.Before(found.until) {
			return place{found, text[at+1:]}, true
		}
	}
	return place{}, false
}

func (m *mounts) keep(found *mount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxMounts {
		clear(m.known)
	}
	m.known[found.path] = found
}

func (m *mounts) forget(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, path)
}

// locate answers where a key points; Vault is asked for an engine that is not known.
func (c *Client) locate(ctx context.Context, key policy.Key) (place, error) {
	if err := checkKey(key); err != nil {
		return place{}, err
	}
	if err := c.leased.check(key, time.Now()); err != nil {
		return place{}, err
	}
	if at, ok := c.mounts.of(key, time.Now()); ok {
		return at, nil
	}
	first, rest, _ := strings.Cut(string(key), "/")
	if c.mounts.stated != 0 {
		found := &mount{path: first + "/", version: c.mounts.stated, until: time.Now().Add(mountFor)}
		c.mounts.keep(found)
		return place{found, rest}, nil
	}
	// Keys of one first segment wait for each other: most are of one engine.
	err := c.flights.do(ctx, "mount "+first, func() error {
		_, err := c.probe(ctx, key)
		return err
	})
	if err != nil {
		return place{}, err
	}
	if at, ok := c.mounts.of(key, time.Now()); ok {
		return at, nil
	}
	// The probe of another key found another engine below the same segment.
	return c.probe(ctx, key)
}

// checkKey refuses what is no document in any KV engine. auth/ above all: the token
// reads itself there, and a document must never hold it.
func checkKey(key policy.Key) error {
	segments := key.Segments()
	if len(segments) < 2 {
		return &store.Error{Reason: v1alpha1.ReasonKeyInvalid, Err: errors.New("the key is not ENGINE/PATH")}
	}
	// Vault Enterprise takes a namespace in front of a path.
	if slices.Contains([]string{"sys", "auth", "identity", "cubbyhole"}, segments[0]) ||
		strings.HasSuffix(string(key), "auth/token/lookup-self") {
		return &store.Error{Reason: v1alpha1.ReasonKeyInvalid, Err: errNoKV}
	}
	return nil
}

var errNoKV = errors.New("the key is in no KV secrets engine")

// probe asks Vault for the engine of a key and keeps it, unless it is known by now.
func (c *Client) probe(ctx context.Context, key policy.Key) (place, error) {
	if at, ok := c.mounts.of(key, time.Now()); ok {
		return at, nil
	}
	got, err := c.read(ctx, "sys/internal/ui/mounts/"+string(key))
	if err != nil {
		return place{}, err
	}
	if failure := got.failure(); failure != nil {
		if failure.Reason == v1alpha1.ReasonKeyForbidden {
			failure.Err = errNoProbe
		}
		return place{}, failure
	}
	found, err := parseMount(got)
	if err != nil {
		return place{}, err
	}
	rest, ok := strings.CutPrefix(string(key), found.path)
	if !ok || rest == "" {
		return place{}, unreachable(errNotVault)
	}
	c.mounts.keep(found)
	return place{found, rest}, nil
}

// errNoProbe is all that Vault says when it does not show an engine.
var errNoProbe = errors.New("the store shows the token no secrets engine for this key: there is none, " +
	"its policies allow nothing in it, or engines are hidden and spec.vault.kvVersion must be set")

// parseMount reads the answer to a probe.
func parseMount(got answer) (*mount, error) {
	e, _ := got.open()
	var data struct {
		Path    string `json:"path"`
		Type    string `json:"type"`
		Options struct {
			Version string `json:"version"`
		} `json:"options"`
	}
	if json.Unmarshal(e.Data, &data) != nil || !strings.HasSuffix(data.Path, "/") {
		return nil, unreachable(errNotVault)
	}
	found := &mount{path: data.Path, version: 1, until: time.Now().Add(mountFor)}
	switch {
	case data.Type != "kv" && data.Type != "generic": // what KV was called before it had versions
		return nil, &store.Error{Reason: v1alpha1.ReasonKeyInvalid, Err: errNoKV}
	case data.Options.Version == "2":
		found.version = 2
	case data.Options.Version != "" && data.Options.Version != "1":
		return nil, &store.Error{Reason: v1alpha1.ReasonKeyInvalid, Err: errors.New("the key's KV secrets engine is of a version that this hub does not know")}
	}
	return found, nil
}
