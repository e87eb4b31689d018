package audit

import (
	"context"
	"hash/maphash"
	"log/slog"
)

// maxRemembered bounds the Renders of one cluster whose last decision is remembered:
// what a session may hold.
const maxRemembered = 20_000

// Decision is who was given or refused which version of a document.
type Decision struct {
	// Cluster is proven; Namespace and Render are its word.
	Cluster, Namespace, Render string
	// Class by its ID, and Key of the document as the Render states it.
	Class, Key string
	// Version of the document that was rendered; empty where it was refused.
	Version string
	Verdict Verdict
	// Reason on the Render's condition and Rule that refused; empty where allowed.
	Reason, Rule string
}

// render names a Render inside one cluster.
type render struct{ namespace, name string }

// seed is this process's: what is remembered leaves it by no way.
var seed = maphash.MakeSeed()

// Decide records a decision that differs from the Render's last one.
func (l *Log) Decide(ctx context.Context, d Decision) {
	if l == nil || !l.changes(d) {
		return
	}
	attrs := []slog.Attr{
		slog.String("namespace", clean(d.Namespace, maxName)), slog.String("render", clean(d.Render, maxName)),
		slog.String("class", clean(d.Class, 2*maxName)), slog.String("key", clean(d.Key, maxKey)),
	}
	for _, more := range []slog.Attr{slog.String("version", d.Version), slog.String("reason", d.Reason), slog.String("rule", d.Rule)} {
		if text := more.Value.String(); text != "" {
			attrs = append(attrs, slog.String(more.Key, clean(text, maxName)))
		}
	}
	l.write(ctx, d.Cluster, eventDecision, d.Verdict, attrs...)
}

// changes remembers a decision, as a hash, and says whether it is another one.
func (l *Log) changes(d Decision) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, is := l.decisions[d.Cluster], maphash.Comparable(seed, d)
	id := render{d.Namespace, d.Render}
	if was, known := of[id]; known && was == is {
		return false
	}
	if of == nil || len(of) >= maxRemembered {
		of = map[render]uint64{}
		l.decisions[d.Cluster] = of
	}
	of[id] = is
	return true
}

// ForgetRender forgets the last decision about a Render that is gone.
func (l *Log) ForgetRender(cluster, namespace, name string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.decisions[cluster]
	if delete(of, render{namespace, name}); len(of) == 0 {
		delete(l.decisions, cluster)
	}
}

// ForgetCluster forgets a cluster that was removed.
func (l *Log) ForgetCluster(cluster string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.decisions, cluster)
}
