package vault

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// fetch reads a document, or answers last when that is still its version.
func (c *Client) fetch(ctx context.Context, key policy.Key, last *store.Document) (*store.Document, error) {
	at, err := c.locate(ctx, key)
	if err != nil {
		return nil, err
	}
	forbidden := "" // the token that may not read the metadata
	if last != nil && at.version == 2 && !at.blind.Load() {
		var current string
		if current, forbidden, err = c.currentVersion(ctx, at); err != nil {
			return nil, c.doubt(at, err)
		}
		if current == last.Version {
			return last, nil
		}
	}
	doc, err := c.document(ctx, key, at)
	if err != nil {
		return nil, c.doubt(at, err)
	}
	// A token that expired meanwhile is forbidden everything.
	if forbidden != "" && forbidden == c.session.token() {
		at.blind.Store(true)
	}
	if last != nil && doc.Version == last.Version {
		return last, nil
	}
	return doc, nil
}

// doubt forgets the engine when a failure may come from there being another one.
func (c *Client) doubt(at place, err error) error {
	if errors.Is(err, errNoMount) || errors.Is(err, errOtherKV) || errors.Is(err, errLeased) {
		c.mounts.forget(at.path)
	}
	return err
}

// currentVersion asks the metadata. Where that is forbidden it answers no version and
// the token.
func (c *Client) currentVersion(ctx context.Context, at place) (current, forbidden string, err error) {
	held, err := c.session.current(ctx)
	if err != nil {
		return "", "", err
	}
	got, err := c.http.get(ctx, held.token, at.metadata())
	if err != nil {
		return "", "", err
	}
	if got.isForbidden() {
		return "", held.token, nil
	}
	current, err = parseMetadata(got, time.Now())
	return current, "", err
}

// document reads the document itself.
func (c *Client) document(ctx context.Context, key policy.Key, at place) (*store.Document, error) {
	got, err := c.read(ctx, at.data())
	if err != nil {
		return nil, err
	}
	if e, own := got.open(); own && e.LeaseID != "" {
		return nil, c.refuseLease(ctx, key, e.LeaseID)
	}
	if at.version == 1 {
		return c.parseV1(got)
	}
	return parseV2(got)
}

// read reads a path, with a new login when the token is refused and it is time for
// one.
func (c *Client) read(ctx context.Context, path string) (answer, error) {
	held, err := c.session.current(ctx)
	if err != nil {
		return answer{}, err
	}
	got, err := c.http.get(ctx, held.token, path)
	if err != nil || !got.isForbidden() {
		return got, err
	}
	other, err := c.session.denied(ctx, held)
	if err != nil || other.token == held.token {
		return got, err
	}
	return c.http.get(ctx, other.token, path)
}

// version is one version of a document of KV 2.
type version struct {
	CreatedTime  string `json:"created_time"`
	DeletionTime string `json:"deletion_time"`
	Destroyed    bool   `json:"destroyed"`
}

// name tells versions apart, also those of a document that was purged and written
// anew.
func (v version) name(number int) string {
	return strconv.Itoa(number) + "@" + v.CreatedTime
}

// gone is why a version cannot be read; nil when it can. The time of a deletion may
// lie ahead.
func (v version) gone(now time.Time) *store.Error {
	if v.Destroyed {
		return &store.Error{Reason: v1alpha1.ReasonDocumentDeleted, Err: errors.New("the current version is destroyed")}
	}
	if v.DeletionTime == "" {
		return nil
	}
	if at, err := time.Parse(time.RFC3339Nano, v.DeletionTime); err == nil && at.After(now) {
		return nil
	}
	return &store.Error{Reason: v1alpha1.ReasonDocumentDeleted, Err: errors.New("the current version is deleted")}
}

// parseMetadata answers the name of the current version.
func parseMetadata(got answer, now time.Time) (string, error) {
	if failure := got.failure(); failure != nil {
		return "", failure
	}
	e, _ := got.open()
	var data struct {
		CurrentVersion *int               `json:"current_version"`
		Versions       map[string]version `json:"versions"`
	}
	if json.Unmarshal(e.Data, &data) != nil || data.CurrentVersion == nil {
		return "", unreachable(errNotVault)
	}
	if *data.CurrentVersion == 0 {
		return "", &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errors.New("the key has metadata and no version")}
	}
	current, ok := data.Versions[strconv.Itoa(*data.CurrentVersion)]
	if !ok {
		return "", unreachable(errNotVault)
	}
	if gone := current.gone(now); gone != nil {
		return "", gone
	}
	return current.name(*data.CurrentVersion), nil
}

func (c *Client) parseV1(got answer) (*store.Document, error) {
	if failure := got.failure(); failure != nil {
		return nil, failure
	}
	e, _ := got.open()
	hash := hmac.New(sha256.New, c.hashKey)
	_, _ = hash.Write(e.Data) // a hash never fails
	return newDocument(hex.EncodeToString(hash.Sum(nil)), e.Data)
}

func parseV2(got answer) (*store.Document, error) {
	e, own := got.open()
	var data struct {
		Data     json.RawMessage `json:"data"`
		Metadata struct {
			version
			Version int `json:"version"`
		} `json:"metadata"`
	}
	// A version that is gone is a 404 with a body.
	versioned := own && json.Unmarshal(e.Data, &data) == nil && data.Metadata.Version > 0
	if got.status == http.StatusNotFound && versioned {
		if gone := data.Metadata.gone(time.Now()); gone != nil {
			return nil, gone
		}
		return nil, unreachable(errNotVault)
	}
	if failure := got.failure(); failure != nil {
		return nil, failure
	}
	if !versioned || data.Metadata.CreatedTime == "" {
		return nil, unreachable(errNotVault)
	}
	return newDocument(data.Metadata.name(data.Metadata.Version), data.Data)
}

// newDocument takes a JSON object as it is.
func newDocument(version string, text json.RawMessage) (*store.Document, error) {
	switch {
	case !bytes.HasPrefix(text, []byte("{")):
		return nil, unreachable(errNotVault)
	case len(text) > store.MaxDocumentBytes:
		return nil, &store.Error{Reason: v1alpha1.ReasonDocumentTooLarge, Err: errTooLarge}
	}
	return &store.Document{
		Version: version, Format: v1alpha1.FormatJSON, Text: bytes.Clone(text), Secret: true,
	}, nil
}
