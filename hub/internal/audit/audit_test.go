package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	grpcpeer "google.golang.org/grpc/peer"
	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// paper is what a Log writes to.
type paper struct {
	// drops gets a value for each line about lines that were dropped; nil for nobody
	// who waits.
	drops chan struct{}

	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (p *paper) Write(line []byte) (int, error) {
	if p.drops != nil && bytes.Contains(line, []byte(`"event":"dropped"`)) {
		p.drops <- struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(line)
}

// lines are the lines written, without their times.
func (p *paper) lines(t *testing.T) []map[string]any {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []map[string]any
	for line := range strings.Lines(p.text.String()) {
		var read map[string]any
		if err := json.Unmarshal([]byte(line), &read); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(read["time"])); err != nil {
			t.Error(err)
		}
		delete(read, "time")
		all = append(all, read)
	}
	return all
}

// line is one line as it should be.
func line(event string, pairs ...string) map[string]any {
	l := map[string]any{"logger": "audit", "event": event}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = pairs[i+1]
	}
	return l
}

func calledFrom(t *testing.T, address string) context.Context {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{Addr: addr})
}

func TestLog_Lines(t *testing.T) {
	const canary = "canary-9f2"
	refused := &identity.Error{Reason: identity.ReasonEvidenceInvalid, Message: canary}
	join := &fleetv1.EnrollRequest{Cluster: "prod", CsrDer: []byte(canary), Evidence: &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{Token: canary}}}
	token := &fleetv1.EnrollRequest{Cluster: "prod", Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: canary}}
	decision := audit.Decision{
		Cluster: "prod", Namespace: "shop", Render: "db", Class: "ClusterDynamicConfigClass/c", Key: "kv/db", Version: "7", Verdict: audit.Allowed,
	}
	no := decision
	no.Version, no.Verdict, no.Reason, no.Rule = "", audit.Refused, "ClassNotAllowed", "keys"
	for name, tc := range map[string]struct {
		do   func(ctx context.Context, l *audit.Log)
		want map[string]any
	}{
		"an enrolment names the cluster it proved": {
			func(ctx context.Context, l *audit.Log) { l.Enrolment(ctx, join, nil) },
			line("enrolment", "cluster", "prod", "verdict", "allowed", "evidence", "JoinToken", "from", "10.1.2.3"),
		},
		"a refused enrolment names a cluster only as claimed": {
			func(ctx context.Context, l *audit.Log) { l.Enrolment(ctx, token, fmt.Errorf("wrapped: %w", refused)) },
			line("enrolment", "claimed", "prod", "verdict", "refused", "reason", "EvidenceInvalid", "evidence", "ServiceAccountToken", "from", "10.1.2.3"),
		},
		"an enrolment that failed is refused without the failure's text": {
			func(ctx context.Context, l *audit.Log) {
				l.Enrolment(ctx, &fleetv1.EnrollRequest{}, errors.New(canary))
			},
			line("enrolment", "claimed", "", "verdict", "refused", "reason", "Failed", "evidence", "None", "from", "10.1.2.3"),
		},
		"an enrolment that was put off is no answer": {
			func(ctx context.Context, l *audit.Log) {
				l.Enrolment(ctx, join, &identity.Error{Reason: identity.ReasonTooManyRequests})
			},
			nil,
		},
		"a user who may see the fleet page": {
			func(ctx context.Context, l *audit.Log) { l.Login(ctx, "ann", "10.1.2.9:4711", audit.Allowed, "") },
			line("login", "verdict", "allowed", "user", "ann", "from", "10.1.2.9"),
		},
		"a user who may not, of a name that would act on who reads it": {
			func(ctx context.Context, l *audit.Log) {
				l.Login(ctx, "a\x1b[31m", "10.1.2.9:4711", audit.Refused, "Forbidden")
			},
			line("login", "verdict", "refused", "user", "a\ufffd[31m", "from", "10.1.2.9", "reason", "Forbidden"),
		},
		"a session that its spoke closed": {
			func(ctx context.Context, l *audit.Log) { l.Session(ctx, "prod", nil) },
			line("session", "cluster", "prod", "verdict", "ended", "reason", "Closed", "from", "10.1.2.3"),
		},
		"a session that a newer one superseded": {
			func(ctx context.Context, l *audit.Log) {
				l.Session(ctx, "prod", &identity.Error{Reason: identity.ReasonSuperseded})
			},
			line("session", "cluster", "prod", "verdict", "ended", "reason", "Superseded", "from", "10.1.2.3"),
		},
		"a session of a suspended cluster": {
			func(ctx context.Context, l *audit.Log) {
				l.Session(ctx, "prod", &identity.Error{Reason: identity.ReasonSuspended})
			},
			line("session", "cluster", "prod", "verdict", "refused", "reason", "Suspended", "from", "10.1.2.3"),
		},
		"a stream without a good certificate is nobody's": {
			func(ctx context.Context, l *audit.Log) {
				l.Session(ctx, "", &identity.Error{Reason: identity.ReasonCertificateInvalid})
			},
			line("session", "verdict", "refused", "reason", "CertificateInvalid", "from", "10.1.2.3"),
		},
		"a document that is given": {
			func(ctx context.Context, l *audit.Log) { l.Decide(ctx, decision) },
			line("decision", "cluster", "prod", "namespace", "shop", "render", "db", "class", "ClusterDynamicConfigClass/c", "key", "kv/db", "version", "7", "verdict", "allowed"),
		},
		"a document that is refused": {
			func(ctx context.Context, l *audit.Log) { l.Decide(ctx, no) },
			line("decision", "cluster", "prod", "namespace", "shop", "render", "db", "class", "ClusterDynamicConfigClass/c", "key", "kv/db", "verdict", "refused", "reason", "ClassNotAllowed", "rule", "keys"),
		},
		"a root that moved on": {
			func(ctx context.Context, l *audit.Log) { l.Authority(ctx, "Signing") },
			line("authority", "stage", "Signing"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p paper
			tc.do(calledFrom(t, "10.1.2.3:41234"), audit.New(&p))
			var want []map[string]any
			if tc.want != nil {
				want = append(want, tc.want)
			}
			if diff := cmp.Diff(want, p.lines(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(p.text.String(), canary) {
				t.Error("it holds what it must not")
			}
		})
	}
}

func TestLog_Decide_WritesWhatChanged(t *testing.T) {
	var p paper
	l := audit.New(&p)
	d := audit.Decision{Cluster: "prod", Namespace: "shop", Render: "db", Class: "c", Key: "k", Version: "1", Verdict: audit.Allowed}
	step := func(what string, lines int, do func()) {
		t.Helper()
		before := len(p.lines(t))
		do()
		if n := len(p.lines(t)) - before; n != lines {
			t.Errorf("%s: %d lines, want %d", what, n, lines)
		}
	}
	decide := func() { l.Decide(t.Context(), d) }
	step("the first", 1, decide)
	step("the same again", 0, decide)
	d.Version = "2"
	step("another version", 1, decide)
	d.Verdict, d.Rule, d.Version = audit.Refused, "keys", ""
	step("a refusal", 1, decide)
	step("the same refusal", 0, decide)
	d.Rule = "clusters"
	step("another rule", 1, decide)
	d.Render = "other"
	step("another Render", 1, decide)
	l.ForgetRender("prod", "shop", "db")
	step("the one that was not forgotten", 0, decide)
	d.Render = "db"
	step("the one that was", 1, decide)
	l.ForgetCluster("prod")
	step("one of a cluster that was forgotten", 1, decide)
	d.Cluster = "dev"
	step("the same in another cluster", 1, decide)
}

// Names and keys are chosen by tenants: nothing in them breaks a line, acts on a
// terminal, or fills a disk.
func TestLog_CleansWhatOthersChose(t *testing.T) {
	for name, tc := range map[string]struct{ key, want string }{
		"letters of any script stay":       {"café/数据", "café/数据"},
		"a line break is no line":          {"a\n{\"event\":\"enrolment\"}", "a\uFFFD{\"event\":\"enrolment\"}"},
		"an escape sequence is shown":      {"a\x1b[2Kb", "a\uFFFD[2Kb"},
		"a turn of direction is shown":     {"a\u202Eb", "a\uFFFDb"},
		"a line separator is shown":        {"a\u2028b", "a\uFFFDb"},
		"bytes that are no text are shown": {"a\xffb", "a\uFFFDb"},
		"a long key is cut":                {strings.Repeat("k", 1025), strings.Repeat("k", 1024) + "…"},
		"a cut falls between characters":   {strings.Repeat("k", 1023) + "é", strings.Repeat("k", 1023) + "…"},
		"a key at the bound is whole":      {strings.Repeat("k", 1024), strings.Repeat("k", 1024)},
	} {
		t.Run(name, func(t *testing.T) {
			var p paper
			audit.New(&p).Decide(t.Context(), audit.Decision{Cluster: "prod", Key: tc.key, Verdict: audit.Allowed})
			lines := p.lines(t)
			if len(lines) != 1 || lines[0]["key"] != tc.want {
				t.Errorf("got %q, want %q", lines, tc.want)
			}
		})
	}
}

// One that asks without end is counted, hides nobody else's lines, nor its own
// refusals behind what it was given.
func TestLog_BoundsEachClusterApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paper{drops: make(chan struct{}, 2)}
		l := audit.New(&p)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		const asked = 1500
		for i := range asked {
			l.Decide(t.Context(), audit.Decision{Cluster: "noisy", Version: fmt.Sprint(i), Verdict: audit.Allowed})
			l.Enrolment(t.Context(), &fleetv1.EnrollRequest{Cluster: fmt.Sprint("stranger-", i)}, &identity.Error{Reason: identity.ReasonEvidenceInvalid})
		}
		l.Decide(t.Context(), audit.Decision{Cluster: "noisy", Rule: "keys", Verdict: audit.Refused})
		l.Decide(t.Context(), audit.Decision{Cluster: "quiet", Verdict: audit.Allowed})
		for range cap(p.drops) { // comes while the log runs, not at its end alone
			<-p.drops
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		count, dropped := map[any]int{}, map[any]any{}
		for _, line := range p.lines(t) {
			if line["event"] == "dropped" {
				dropped[line["cluster"]] = line["dropped"]
				continue
			}
			count[fmt.Sprint(line["cluster"], " ", line["verdict"])]++
		}
		want := map[any]int{"noisy allowed": 1000, "<nil> refused": 1000, "noisy refused": 1, "quiet allowed": 1}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[any]any{"noisy": 500.0, nil: 500.0}, dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
	})
}

// broken is a disk that is full.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestLog_SaysThatLinesWereLost(t *testing.T) {
	var said []string
	ctx, stop := context.WithCancel(ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{})))
	l := audit.New(broken{})
	l.Authority(ctx, "Signing")
	stop()
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "no space left on device") || !strings.Contains(said[0], `"lines"=1`) {
		t.Errorf("said %q", said)
	}
}

func TestLog_NilWritesNothing(t *testing.T) {
	var l *audit.Log
	l.Enrolment(t.Context(), nil, nil)
	l.Session(t.Context(), "", nil)
	l.Decide(t.Context(), audit.Decision{})
	l.Authority(t.Context(), "")
	l.ForgetRender("", "", "")
	l.ForgetCluster("")
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
