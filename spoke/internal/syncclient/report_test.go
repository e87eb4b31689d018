package syncclient_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"

	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

// line is a log line.
type line struct {
	Level, Msg, Reason, RetryIn string
}

// lines keep what is logged.
type lines struct {
	mu  sync.Mutex // guards all
	all []line
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parsed line
	if err := json.Unmarshal(text, &parsed); err != nil {
		return 0, err
	}
	l.all = append(l.all, parsed)
	return len(text), nil
}

func (l *lines) logger() logr.Logger {
	return logr.FromSlogHandler(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// errors are the lines at the level error.
func (l *lines) errors() []line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(l line) bool { return l.Level != slog.LevelError.String() })
}

// count is how often a message was logged.
func (l *lines) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if line.Msg == message {
			n++
		}
	}
	return n
}

// An agent that gets no session says why once, as an error, however often it tries.
func TestRun_WhatKeepsTheAgentFromASessionIsSaidOnce(t *testing.T) {
	const refused, unreachable = "The hub refused this agent", "The hub cannot be reached"
	why := map[string]string{refused: "the hub refused this agent", unreachable: "the hub cannot be reached"}
	none := filepath.Join(t.TempDir(), "none")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := hubtest.Start(t, hubtest.Settings{})
	foreign := start(t, other, func(c *syncclient.Config) { c.Cluster = "west" })
	other.Accept(t)
	foreign.stop()
	suspended := hubtest.Denied(codes.PermissionDenied, identity.ReasonSuspended)
	for name, tc := range map[string]struct {
		hub           hubtest.Settings
		change        func(*syncclient.Config)
		message, want string
	}{
		"a hub that is not there": {
			change: func(c *syncclient.Config) { c.Address = "127.0.0.1:1" }, message: unreachable, want: identity.ReasonHubUnreachable,
		},
		"a hub with another root": {
			change: func(c *syncclient.Config) { c.CAFile = other.CAFile }, message: unreachable, want: identity.ReasonHubUntrusted,
		},
		"a hub with another name": {
			change: func(c *syncclient.Config) { c.ServerName = "hub.example" }, message: unreachable, want: identity.ReasonHubNameMismatch,
		},
		"roots that are gone": {
			change: func(c *syncclient.Config) { c.CAFile = none }, message: unreachable, want: identity.ReasonHubCAUnreadable,
		},
		"roots that are none": {
			change: func(c *syncclient.Config) { c.CAFile = empty }, message: unreachable, want: identity.ReasonHubCAUnreadable,
		},
		"another cluster's identity": {
			change: func(c *syncclient.Config) { c.Credentials = foreign.keeper }, message: unreachable, want: identity.ReasonIdentityOfAnotherCluster,
		},
		"an identity that cannot be read": {
			change: func(c *syncclient.Config) { c.Credentials = &keeper{loads: errors.New("forbidden")} }, message: unreachable, want: identity.ReasonIdentityUnavailable,
		},
		"an identity that cannot be kept": {
			change: func(c *syncclient.Config) { c.Credentials = &keeper{locked: errors.New("forbidden")} }, message: unreachable, want: identity.ReasonIdentityUnavailable,
		},
		"no token": {
			change: func(c *syncclient.Config) { c.Evidence = &account{down: errors.New("forbidden")} }, message: unreachable, want: identity.ReasonEvidenceUnavailable,
		},
		"keys that the hub does not know": {
			hub: hubtest.Settings{UnknownKeys: true}, change: func(c *syncclient.Config) { c.JoinTokenFile = "" }, message: refused, want: identity.ReasonEvidenceInvalid,
		},
		"a cluster that is suspended": {hub: hubtest.Settings{Reject: suspended}, message: refused, want: identity.ReasonSuspended},
		"a hub that drains": {
			hub: hubtest.Settings{Reject: hubtest.Denied(codes.Unavailable, identity.ReasonDraining)}, message: unreachable, want: identity.ReasonDraining,
		},
		"an answer that is no hub's": {
			hub: hubtest.Settings{Reject: hubtest.Denied(codes.Unimplemented, "")}, message: unreachable, want: identity.ReasonHubAnswerInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, hubtest.Start(t, tc.hub), func(c *syncclient.Config) {
				if tc.change != nil {
					tc.change(c)
				}
			})
			again := func() int { return a.logs.count("There is still no session") }
			gomega.NewWithT(t).Eventually(again, patience).Should(gomega.BeNumerically(">", 2))
			a.stop()
			told := a.logs.errors()
			if len(told) != 1 || told[0].Msg != tc.message || told[0].Reason != tc.want || told[0].RetryIn == "" {
				t.Errorf("want one line %q with reason %s, got %+v", tc.message, tc.want, told)
			}
			if got := get(t, a.troubles); len(a.troubles) != 0 || got != why[tc.message]+" ("+tc.want+")" {
				t.Errorf("the receiver was told %q, and %d times more", got, len(a.troubles))
			}
		})
	}
}

func TestRun_ACauseThatChangesIsSaidAgainAndSoIsTheSession(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{Reject: hubtest.Denied(codes.PermissionDenied, identity.ReasonNotAccepted)})
	a := start(t, h)
	for _, reason := range []string{identity.ReasonNotAccepted, identity.ReasonSuspended, identity.ReasonNotAccepted} {
		h.Configure(func(s *hubtest.Settings) { s.Reject = hubtest.Denied(codes.PermissionDenied, reason) })
		if got := get(t, a.troubles); got != "the hub refused this agent ("+reason+")" {
			t.Errorf("told of %q, want %s", got, reason)
		}
	}
	h.Configure(func(s *hubtest.Settings) { s.Reject = nil })
	s := h.Accept(t)
	s.Inventory(t)
	get(t, a.connected)
	if n := a.logs.count("Session established"); n != 1 {
		t.Errorf("the session is told of %d times", n)
	}
	before := len(a.logs.errors())
	s.Send(drained(0))
	h.Accept(t)
	if after := len(a.logs.errors()); before != 3 || after != before {
		t.Errorf("%d errors before the session drained, %d after", before, after)
	}
}

// A session that another agent took ends in an error: two agents have one identity.
func TestRun_ASessionThatAnotherAgentTookIsAnError(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	a := start(t, h)
	s := h.Accept(t)
	s.Inventory(t)
	s.End(hubtest.Denied(codes.Aborted, identity.ReasonSuperseded))
	if got := get(t, a.troubles); got != "the hub refused this agent (Superseded)" {
		t.Errorf("told of %q", got)
	}
}
