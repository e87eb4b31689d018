package consul

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul/mux"
)

const (
	// fetchTimeout bounds a read that does not block on purpose.
	fetchTimeout = 10 * time.Second
	// blockFor is how long Consul is asked to block, on average: below the idle
	// timeout of usual proxies.
	blockFor = 50 * time.Second
	// maxLag is how long a server that is asked to wait may not have heard of the
	// leader: many heartbeats, and short beside blockFor.
	maxLag = 10 * time.Second
)

// Causes that the checks of answers tell apart.
var (
	errAbsent    = errors.New("absent or not readable by this token")
	errNotConsul = errors.New("the answer is not Consul's")
	errTooLarge  = errors.New("the value is larger than 4 MiB")
	errForbidden = errors.New("the token may not read this key")
)

// requests are the requests that package mux has made.
type requests struct {
	client               *api.Client
	namespace, partition string
}

var _ mux.Requests = (*requests)(nil)

// Get reads a key.
func (r *requests) Get(ctx context.Context, key policy.Key) mux.Reading {
	bounded, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	bounded, met := withExchange(bounded)
	pair, meta, err := r.client.KV().Get(string(key), (&api.QueryOptions{RequireConsistent: true}).WithContext(bounded))
	if ctx.Err() != nil {
		return mux.Reading{Err: ctx.Err()}
	}
	if err == nil {
		err = checkAnswer(pair, key, met)
	}
	if err != nil {
		failure := classify(err, met)
		// An absent document has an index to wait from, too.
		if meta != nil && store.IsAbsent(failure) {
			return mux.Reading{Err: failure, Index: meta.LastIndex}
		}
		return mux.Reading{Err: failure}
	}
	return mux.Reading{Doc: documentOf(pair), Index: meta.LastIndex}
}

// Index asks any server when it waits, else the leader. The answer's body is not read:
// the index says it all.
func (r *requests) Index(ctx context.Context, q mux.Query) (uint64, error) {
	options, timeout := modeOf(q.After)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bounded, met := withExchange(bounded)
	met.unread = true
	meta, err := r.ask(q, options.WithContext(bounded))
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err == nil && !met.indexed:
		err = errNotConsul
	case err == nil && options.AllowStale && lags(meta, q.After):
		return 0, mux.ErrLags
	case err == nil:
		return meta.LastIndex, nil
	}
	return 0, unindexed(classify(err, met), q, options.AllowStale)
}

// unindexed is the error of an Index that failed; stale says that any server may have
// answered.
func unindexed(failure *store.Error, q mux.Query, stale bool) error {
	forbidden := failure.Reason == v1alpha1.ReasonKeyForbidden
	switch {
	case stale && (forbidden || failure.Reason == v1alpha1.ReasonCredentialRejected):
		return mux.ErrLags // it may not know the token yet
	case forbidden && !q.Exact:
		return mux.ErrRefused
	}
	return failure
}

func (r *requests) ask(q mux.Query, options *api.QueryOptions) (*api.QueryMeta, error) {
	if q.Exact {
		_, meta, err := r.client.KV().Get(q.Prefix, options)
		return meta, err
	}
	// The separator makes the list short; the index counts all that it hides.
	_, meta, err := r.client.KV().Keys(q.Prefix, "/", options)
	return meta, err
}

// lags says whether the server that answered may have missed a change: when it looked,
// it heard no leader, or had not for long, or was not even where the question was
// asked from.
func lags(meta *api.QueryMeta, after uint64) bool {
	return !meta.KnownLeader || meta.LastContact > maxLag || meta.LastIndex < after
}

// Read reads keys in one transaction, with consistency: a group goes on from the
// highest index that was seen, which a deposed leader may not have reached.
func (r *requests) Read(ctx context.Context, keys []policy.Key) ([]mux.Reading, error) {
	ops := make(api.TxnOps, len(keys))
	for n, key := range keys {
		ops[n] = &api.TxnOp{KV: &api.KVTxnOp{
			Verb: api.KVGetOrEmpty, Key: string(key), Namespace: r.namespace, Partition: r.partition,
		}}
	}
	bounded, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	bounded, met := withExchange(bounded)
	ok, answer, _, err := r.client.Txn().Txn(ops, (&api.QueryOptions{RequireConsistent: true}).WithContext(bounded))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isTooLarge(err):
		return nil, mux.ErrTooLarge
	case err == nil && !ok:
		return nil, mux.ErrRefused
	case met.status != 0 && met.status != http.StatusOK && err != nil:
		// The library has no type for it here; its text is the body.
		return nil, refusal(api.StatusError{Code: met.status, Body: err.Error()}, met)
	case err != nil:
		return nil, classify(err, met)
	case !met.led:
		return nil, classify(errNotConsul, met)
	}
	readings, err := sortOut(keys, answer.Results)
	if err != nil {
		return nil, classify(err, met)
	}
	return readings, nil
}

// refusal tells a server that has no such transactions, and whoever stands before it,
// from a failure.
func refusal(status api.StatusError, met *exchange) error {
	failure := byStatus(status, met)
	switch {
	case failure.Reason == v1alpha1.ReasonKeyForbidden:
		return mux.ErrRefused // Consul leaves out what the token may not read
	case failure.Reason == v1alpha1.ReasonStoreUnreachable && status.Code >= 400 && status.Code < 500:
		return mux.ErrRefused
	}
	return failure
}

// sortOut gives the results of a transaction to the keys that were asked for. Consul
// answers an absent key without an index, and leaves out what the token may not
// read. A result that nobody asked for, or twice, is not Consul's.
func sortOut(keys []policy.Key, results api.TxnResults) ([]mux.Reading, error) {
	place := make(map[string]int, len(keys))
	readings := make([]mux.Reading, len(keys))
	for n, key := range keys {
		place[string(key)] = n
		readings[n].Err = &store.Error{Reason: v1alpha1.ReasonKeyForbidden, Err: errForbidden}
	}
	var index uint64
	for _, result := range results {
		if result == nil || result.KV == nil {
			return nil, errNotConsul
		}
		n, asked := place[result.KV.Key]
		if !asked {
			return nil, errNotConsul
		}
		delete(place, result.KV.Key)
		if readings[n] = readingOf(result.KV); errors.Is(readings[n].Err, errNotConsul) {
			return nil, errNotConsul
		}
		index = max(index, result.KV.ModifyIndex)
	}
	for n := range readings {
		if readings[n].Err == nil || store.IsAbsent(readings[n].Err) {
			readings[n].Index = index // all of them are of one moment
		}
	}
	return readings, nil
}

func readingOf(pair *api.KVPair) mux.Reading {
	switch {
	case pair.ModifyIndex == 0 && (pair.CreateIndex > 0 || len(pair.Value) > 0):
		return mux.Reading{Err: errNotConsul}
	case pair.ModifyIndex == 0:
		return mux.Reading{Err: &store.Error{Reason: v1alpha1.ReasonDocumentNotFound, Err: errAbsent}}
	case len(pair.Value) > store.MaxDocumentBytes:
		return mux.Reading{Err: &store.Error{Reason: v1alpha1.ReasonDocumentTooLarge, Err: errTooLarge}}
	}
	return mux.Reading{Doc: documentOf(pair)}
}

func documentOf(pair *api.KVPair) *store.Document {
	return &store.Document{Version: strconv.FormatUint(pair.ModifyIndex, 10), Text: pair.Value}
}

// checkAnswer says what is wrong with an answer that is no failure to the
// library.
func checkAnswer(pair *api.KVPair, key policy.Key, met *exchange) error {
	switch {
	case !met.indexed:
		return errNotConsul
	case pair == nil && met.status == http.StatusNotFound:
		return errAbsent
	case pair == nil || pair.Key != string(key):
		return errNotConsul
	case len(pair.Value) > store.MaxDocumentBytes:
		return errTooLarge
	}
	return nil
}

// modeOf answers how to ask from an index on, and how long that may take.
func modeOf(after uint64) (*api.QueryOptions, time.Duration) {
	if after == 0 {
		return &api.QueryOptions{RequireConsistent: true}, fetchTimeout
	}
	wait := jitter(blockFor)
	// Consul adds up to a sixteenth of the wait on its own.
	return &api.QueryOptions{AllowStale: true, WaitIndex: after, WaitTime: wait}, wait + wait/16 + fetchTimeout
}

// jitter answers a duration within a fifth of the given one.
func jitter(d time.Duration) time.Duration {
	fifth := d / 5
	return d - fifth + rand.N(2*fifth) //nolint:gosec // spreads load, keeps no secret
}
